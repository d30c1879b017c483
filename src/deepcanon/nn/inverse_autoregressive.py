"""Inverse autoregressive flow: each value is scaled and shifted by a masked network of the values before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import elu, logsigmoid

from deepcanon.core.checks import at_least
from deepcanon.nn.masked import MaskedLinear, autoregressive_mask, spread_degrees
from deepcanon.nn.transforms import Mapped, Transform

OPEN = 1.5
"""The first logit of the gates, so that the transform starts near the identity: the paper takes 1 to 2."""


class InverseAutoregressive(Transform):
    r"""A step of an inverse autoregressive flow (IAF), with a gate as in an LSTM.

    .. math:: f(z) = \sigma \odot z + (1 - \sigma) \odot m, \qquad \log |\det f'(z)| = \sum_d \log \sigma_d

    The gates :math:`\sigma_d`, between 0 and 1, and :math:`m_d` depend on :math:`z_1, \dots, z_{d-1}` and the context,
    by a masked network with ELUs. So the Jacobian is triangular, and all values are moved in one pass; the inverse
    takes as many as there are values.

    References:
        | Improved Variational Inference with Inverse Autoregressive Flow (Kingma et al., 2016),
          https://arxiv.org/abs/1606.04934

    Arguments:
        features: The dimension of z.
        context: The number of values in a context that the network reads as well; 0 if there is none.
        hidden: The widths of the hidden layers of the masked network.
    """

    def __init__(self, features: int, context: int = 0, hidden: tuple[int, ...] = (64,)) -> None:
        super().__init__()
        at_least(1, features=features)
        at_least(0, context=context)
        for width in hidden:
            at_least(1, hidden=width)
        self.features, self.conditional = features, context > 0
        values = torch.arange(1, features + 1)
        seen = torch.cat([torch.zeros(context, dtype=torch.long), values])  # the context has degree 0: all see it
        inner = [spread_degrees(features, width, lowest=0 if context else 1) for width in hidden]
        self.layers = nn.ModuleList(
            MaskedLinear(autoregressive_mask(*degrees)) for degrees in zip([seen, *inner], inner, strict=False)
        )
        self.output = MaskedLinear(autoregressive_mask([seen, *inner][-1], values.repeat(2), strictly=True))
        with torch.no_grad():
            self.output.weight.mul_(0.1)
            self.output.bias.copy_(torch.tensor([0.0, OPEN]).repeat_interleave(features))

    def forward(self, x: Tensor, context: Tensor | None = None) -> Mapped:
        towards, logits = self._towards_and_gates(x, context)
        gates = logits.sigmoid()
        return gates * x + (1 - gates) * towards, logsigmoid(logits).sum(-1)

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        x = torch.zeros_like(z)
        for _ in range(self.features):  # in pass d the value d comes out right, given those before it
            towards, logits = self._towards_and_gates(x, context)
            gates = logits.sigmoid()
            x = (z - (1 - gates) * towards) / gates
        return x

    def _towards_and_gates(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """The points m and the logits of the gates, (B, features) each."""
        h = x if context is None else torch.cat([context, x], -1)
        for layer in self.layers:
            h = elu(layer(h))
        towards, logits = self.output(h).chunk(2, dim=-1)
        return towards, logits

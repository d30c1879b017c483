"""Inverse autoregressive flow: each value is scaled and shifted by a masked network of the values before it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import elu, logsigmoid

from deepcanon.nn.masked_autoregressive import MaskedAutoregressive

OPEN = 1.5
"""The first logit of the gates, so that the transform starts near the identity: the paper takes 1 to 2."""


class InverseAutoregressive(MaskedAutoregressive):
    r"""A step of an inverse autoregressive flow (IAF), with a gate as in an LSTM.

    .. math:: f(z) = \sigma \odot z + (1 - \sigma) \odot m, \qquad \log |\det f'(z)| = \sum_d \log \sigma_d

    The gates :math:`\sigma_d`, between 0 and 1, and :math:`m_d` depend on :math:`z_1, \dots, z_{d-1}` and the context,
    by a masked network with ELUs. So the Jacobian is triangular, and all values are moved in one pass; the inverse
    finds one after the other.

    References:
        | Improved Variational Inference with Inverse Autoregressive Flow (Kingma et al., 2016),
          https://arxiv.org/abs/1606.04934

    Arguments:
        features: The dimension of z.
        context: The number of values in a context that the network reads as well; 0 if there is none.
        hidden: The widths of the hidden layers of the masked network.
        backwards: Whether the order of the values is from the last to the first.
    """

    activation = staticmethod(elu)

    @torch.no_grad()
    def _initialize(self) -> None:
        """Start near the identity, as the paper does."""
        self.output.weight.mul_(0.1)
        self.output.bias.copy_(torch.tensor([0.0, OPEN]).repeat_interleave(self.features))

    def _log_scale_and_shift(self, outputs: Tensor, dim: int = -1) -> tuple[Tensor, Tensor]:
        towards, logits = outputs.chunk(2, dim)
        return logsigmoid(logits), (-logits).sigmoid() * towards

    def _activation_backward(self, gradient: Tensor, activated: Tensor) -> Tensor:
        before: Tensor = torch.ops.aten.elu_backward(gradient, 1, 1, 1, True, activated)
        return before

    def _outputs_backward(self, outputs: Tensor, log_scale: Tensor, of_log_scale: Tensor, of_shift: Tensor) -> Tensor:
        towards = outputs[..., : self.features]
        closed = -log_scale.expm1()  # 1 - sigma, the derivative of log sigma by its logit
        of_logits = torch.addcmul(of_log_scale, log_scale.exp() * towards, of_shift, value=-1) * closed
        return torch.cat([closed * of_shift, of_logits], -1)

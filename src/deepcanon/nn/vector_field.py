"""Time-dependent vector fields with their derivatives along directions: the dynamics of continuous flows."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from deepcanon.core.checks import at_least
from deepcanon.core.precision import full


class TimeGated(nn.Module):
    r"""A linear layer that a time scales and shifts: :math:`\sigma(u t + c) \odot (W h + b) + w t`.

    References:
        | FFJORD: Free-form Continuous Dynamics for Scalable Reversible Generative Models (Grathwohl et al., 2019; its
          "concatsquash" layer), https://arxiv.org/abs/1810.01367
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.gate = nn.Linear(1, outputs)
        self.shift = nn.Linear(1, outputs, bias=False)

    def forward(self, t: Tensor, h: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The layer at times (B, 1) and inputs (B, inputs), and its derivative along the directions (S, B, inputs)."""
        gate = self.gate(t).sigmoid()
        return gate * self.linear(h) + self.shift(t), gate * (v @ self.linear.weight.T)


class VectorField(nn.Module):
    """A vector field :math:`f(t, x)` of tanh units, smooth in both, and its derivative along directions of x.

    Arguments:
        features: The dimension of the space.
        hidden: The widths of the hidden layers.
    """

    def __init__(self, features: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        at_least(1, features=features, **({"hidden": min(hidden)} if hidden else {}))
        self.layers = nn.ModuleList(TimeGated(*sizes) for sizes in pairwise((features, *hidden, features)))

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        """The field at the times (B,) and the points (B, features)."""
        return self.along(t, x, x.new_zeros(0, *x.shape))[0]

    def along(self, t: Tensor, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        r"""The field, and its derivatives :math:`\frac{\partial f}{\partial x} v` along (S, B, features) directions.

        The derivatives go through the layers together with the values, in forward mode.
        """
        h, t = x, t.unsqueeze(1)
        for i, layer in enumerate(self.layers):
            if i > 0:
                h = h.tanh()
                v = v * (1 - h.square())
            h, v = layer(t, h, v)
        return full(h), full(v)

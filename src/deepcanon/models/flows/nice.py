"""Non-linear independent components estimation (NICE)."""

from __future__ import annotations

from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Recipe
from deepcanon.core.checks import flat
from deepcanon.core.precision import full
from deepcanon.models.flows._couplings import Couplings
from deepcanon.nn.dense import dense


class NICE(Couplings):
    r"""A normalizing flow of additive coupling layers, which keep volumes, and one scale per feature at the end.

    Also known as: additive coupling flow.

    .. math:: h_a = x_a, \qquad h_b = x_b + t(x_a), \qquad \ldots, \qquad z = e^{s} \odot h \qquad (1)

    .. math:: h = e^{-s} \odot z, \qquad \ldots, \qquad x_b = h_b - t(h_a) \qquad (2)

    .. math:: \log \left| \det \frac{dz}{dx} \right| = \sum_i s_i \qquad (3)

    Features are standardized first, which adds its own log-determinant to (3). The coupling layers move probability
    mass about, but can neither concentrate nor spread it; those of RealNVP can.

    References:
        | NICE: Non-linear Independent Components Estimation (Dinh et al., 2015), https://arxiv.org/abs/1410.8516

    Arguments:
        features: The dimension :math:`D` of the data, at least 2.
        couplings: The number of coupling layers; neighbors swap the halves.
        hidden: The widths of the hidden layers of the networks :math:`t`.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine", batch_size=128, epochs=60)

    def __init__(
        self, features: int, couplings: int = 8, hidden: tuple[int, ...] = (64, 64), levels: int | None = None
    ) -> None:
        super().__init__(features, couplings, levels)
        relu = partial(nn.ReLU, inplace=True)
        self.nets = nn.ModuleList(dense(*self._read_and_changed(i), hidden, activation=relu) for i in range(couplings))
        self.log_scale = nn.Parameter(torch.zeros(features))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) @ torch.tensor([[2.0, 1.0], [0.0, 0.5]])
        return cls(features=2, couplings=4, hidden=(8, 8)), Batch(x)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self._split(self.standard(flat(x, self.features)))
        for net in self.nets:
            a, b = b + full(net(a)), a  # eq. (1); the halves swap
        z = self._join(a, b, len(self.nets)) * self.log_scale.exp()  # eq. (1)
        return z, (self.standard.log_det() + self.log_scale.sum()).expand(len(z))  # eq. (3)

    def to_data(self, z: Tensor) -> Tensor:
        a, b = self._split(z * (-self.log_scale).exp(), len(self.nets))  # eq. (2)
        for net in reversed(self.nets):
            a, b = b, a - full(net(b))  # eq. (2)
        return self.standard.inverse(self._join(a, b))

"""Real-valued non-volume-preserving flow (RealNVP)."""

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


class RealNVP(Couplings):
    r"""A normalizing flow of affine coupling layers: half of x scales and shifts the other half.

    Also known as: affine coupling flow.

    .. math:: z_a = x_a, \qquad z_b = x_b \odot e^{s(x_a)} + t(x_a) \qquad (1)

    .. math:: x_b = (z_b - t(z_a)) \odot e^{-s(z_a)} \qquad (2)

    .. math:: \log \left| \det \frac{dz}{dx} \right| = \sum s(x_a) \qquad (3)

    These are of one coupling layer; the log-determinants of all of them and of the standardization of the features add
    up. As in the paper, :math:`s = \lambda \tanh(\cdot)` with a learned :math:`\lambda`, so that no scale diverges.

    References:
        | Density estimation using Real NVP (Dinh et al., 2017), https://arxiv.org/abs/1605.08803

    Arguments:
        features: The dimension :math:`D` of the data, at least 2.
        couplings: The number of coupling layers; neighbors swap the halves.
        hidden: The widths of the hidden layers of the networks :math:`(s, t)`.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine", batch_size=128, epochs=60)

    def __init__(
        self, features: int, couplings: int = 8, hidden: tuple[int, ...] = (64, 64), levels: int | None = None
    ) -> None:
        super().__init__(features, couplings, levels)
        relu = partial(nn.ReLU, inplace=True)
        sizes = map(self._read_and_changed, range(couplings))
        self.nets = nn.ModuleList(dense(read, 2 * changed, hidden, activation=relu) for read, changed in sizes)
        self.limits = nn.Parameter(torch.full((couplings,), 0.5))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) @ torch.tensor([[2.0, 1.0], [0.0, 0.5]])
        return cls(features=2, couplings=4, hidden=(8, 8)), Batch(x)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self._split(self.standard(flat(x, self.features)))
        scales = []
        for i in range(len(self.nets)):
            s, t = self._couple(i, a)
            a, b = b * s.exp() + t, a  # eq. (1); the halves swap
            scales.append(s)
        log_det = self.standard.log_det() + torch.cat(scales, dim=-1).sum(-1)  # eq. (3)
        return self._join(a, b, len(self.nets)), log_det

    def to_data(self, z: Tensor) -> Tensor:
        a, b = self._split(z, len(self.nets))
        for i in reversed(range(len(self.nets))):
            s, t = self._couple(i, b)
            a, b = b, (a - t) * (-s).exp()  # eq. (2)
        return self.standard.inverse(self._join(a, b))

    def _couple(self, i: int, half: Tensor) -> tuple[Tensor, Tensor]:
        """The log-scale s and the shift t that coupling layer i computes from the half that it reads."""
        s, t = full(self.nets[i](half)).chunk(2, dim=-1)
        return self.limits[i] * s.tanh(), t

"""Masked autoregressive flow (MAF)."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Batch, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.flows._flow import TransformFlow
from deepcanon.nn.masked_autoregressive import MaskedAutoregressive
from deepcanon.nn.transforms import ActNorm, Chain


class MAF(TransformFlow[Batch]):
    r"""A normalizing flow of autoregressive Gaussians: each value is scaled and shifted given the ones before it.

    Also known as: affine autoregressive flow.

    .. math:: z_d = x_d\, e^{a_d(x_{<d})} + b_d(x_{<d}) \qquad (1)

    .. math:: \log \left| \det \frac{dz}{dx} \right| = \sum_d a_d(x_{<d}) \qquad (2)

    A masked network (MADE) gives all :math:`a_d` and :math:`b_d` of a step in one pass, so that densities are computed
    in parallel. To sample, the values of x are found one after the other. One step is a product of Gaussian
    conditionals; in the next one the order of the values is reversed. ActNorm comes first. IAF has the same steps in
    the other direction: it samples in parallel.

    References:
        | Masked Autoregressive Flow for Density Estimation (Papamakarios et al., 2017), https://arxiv.org/abs/1705.07057

    Arguments:
        features: The dimension :math:`D` of the data.
        transforms: The number of steps.
        hidden: The widths of the hidden layers of each masked network.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine", batch_size=128, epochs=40)

    def __init__(
        self, features: int, transforms: int = 5, hidden: tuple[int, ...] = (64, 64), levels: int | None = None
    ) -> None:
        super().__init__(features, levels)
        at_least(1, features=features, transforms=transforms)
        steps = [
            MaskedAutoregressive(features, hidden=hidden, backwards=number % 2 == 1)  # eqs. (1) and (2)
            for number in range(transforms)
        ]
        self.flow = Chain([ActNorm(features), *steps])

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0)).cumsum(1)
        return cls(features=3, transforms=2, hidden=(8, 8)), Batch(x)

"""Inverse autoregressive flow (IAF)."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Batch, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.flows._flow import TransformFlow
from deepcanon.nn.masked_autoregressive import MaskedAutoregressive
from deepcanon.nn.transforms import ActNorm, Chain, Inverse


class IAF(TransformFlow[Batch]):
    r"""A normalizing flow that samples in parallel: each value is scaled and shifted given the noise before it.

    .. math:: x_d = z_d\, e^{a_d(z_{<d})} + b_d(z_{<d}) \qquad (1)

    .. math:: \log \left| \det \frac{dz}{dx} \right| = -\sum_d a_d(z_{<d}) \qquad (2)

    It is the inverse of MAF: a masked network gives all :math:`a_d` and :math:`b_d` of a step in one pass from the
    noise, so that samples, with their densities, are computed in parallel. The density of data that it has not drawn
    takes the noise value by value. From step to step the order of the values is reversed, and ActNorm comes last,
    next to the data. Trained on data it gains nothing over MAF; it is made for posteriors, and to be distilled
    from a MAF: ``deepcanon study density_distillation``.

    References:
        | Improved Variational Inference with Inverse Autoregressive Flow (Kingma et al., 2016),
          https://arxiv.org/abs/1606.04934

    Arguments:
        features: The dimension :math:`D` of the data.
        transforms: The number of steps.
        hidden: The widths of the hidden layers of each masked network.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
    """

    default_data = "moons"
    recipe = Recipe(lr=5e-3, schedule="cosine", batch_size=128, epochs=40)

    def __init__(
        self, features: int, transforms: int = 5, hidden: tuple[int, ...] = (64, 64), levels: int | None = None
    ) -> None:
        super().__init__(features, levels)
        at_least(1, features=features, transforms=transforms)
        steps = [
            Inverse(MaskedAutoregressive(features, hidden=hidden, backwards=number % 2 == 1))  # eqs. (1) and (2)
            for number in range(transforms)
        ]
        self.flow = Chain([ActNorm(features), *steps])

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0)).cumsum(1)
        return cls(features=3, transforms=2, hidden=(8, 8)), Batch(x)

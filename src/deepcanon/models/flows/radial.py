"""Radial flow."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Batch, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.flows._flow import TransformFlow
from deepcanon.nn.planar_flow import Radial
from deepcanon.nn.transforms import ActNorm, Chain, Inverse


class RadialFlow(TransformFlow[Batch]):
    r"""A normalizing flow of steps that push points away from a center, or draw them towards it.

    .. math:: x = f_1 \circ \cdots \circ f_K(z), \qquad f(z) = z + \frac{\beta}{\alpha + r} (z - c), \quad
              r = \lVert z - c \rVert \qquad (1)

    .. math:: \log |\det f'(z)| = (D - 1) \log \Bigl(1 + \frac{\beta}{\alpha + r}\Bigr) +
              \log \Bigl(1 + \frac{\alpha \beta}{(\alpha + r)^2}\Bigr) \qquad (2)

    A step is invertible if :math:`\alpha > 0` and :math:`\beta > -\alpha`; the inverse has the distance from the center
    by a quadratic equation, so that the density of data is exact. The features are first scaled and shifted, by
    ActNorm.

    Fitted to a density that is known but for its constant, rather than to data: ``deepcanon study flow_targets``.

    References:
        | Variational Inference with Normalizing Flows (Rezende and Mohamed, 2015), https://arxiv.org/abs/1505.05770

    Arguments:
        features: The dimension :math:`D` of the data.
        transforms: The number :math:`K` of steps.
        levels: The gray levels of the images before they were dequantized; if known, metrics have bits per dimension.
    """

    default_data = "moons"
    recipe = Recipe(lr=1e-2, schedule="cosine", batch_size=256, epochs=60)

    def __init__(self, features: int, transforms: int = 16, levels: int | None = None) -> None:
        super().__init__(features, levels)
        at_least(1, features=features, transforms=transforms)
        steps = [Inverse(Radial(features)) for _ in range(transforms)]  # eqs. (1) and (2)
        self.flow = Chain([ActNorm(features), *steps])

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)).cumsum(1)
        return cls(features=2, transforms=3), Batch(x)

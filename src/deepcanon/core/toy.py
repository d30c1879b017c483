"""Gaussian with unit variance."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core.batch import Batch
from deepcanon.core.density import Density
from deepcanon.core.recipe import Recipe


class Toy(Density[Batch]):
    r"""A Gaussian density with a learned mean and unit variance: the smallest model, for examples and tests.

    .. math:: -\log p(x) = \tfrac12 \lVert x - \mu \rVert^2 + \tfrac D2 \log 2\pi \qquad (1)

    References:
        | Theoria motus corporum coelestium (Gauss, 1809), book 2, section 3

    Arguments:
        features: The dimension :math:`D` of the data.

    >>> model, batch = Toy.example()
    >>> model.loss(batch)["nll"].item() > 0
    True
    """

    recipe = Recipe(lr=0.1, epochs=5)

    def __init__(self, features: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(features))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(features=2), Batch(torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) + 1)

    def _log_prob(self, x: Tensor) -> Tensor:
        square = (x.flatten(1) - self.mean).square()
        return -0.5 * (square + math.log(2 * math.pi)).sum(-1)  # eq. (1)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        noise = torch.randn(n, len(self.mean), generator=generator, device=self.mean.device, dtype=self.mean.dtype)
        return self.mean + noise

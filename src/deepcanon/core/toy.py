"""The smallest model there is, for examples and tests of what holds a model."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core.batch import Batch
from deepcanon.core.model import LikelihoodKind, Model
from deepcanon.core.recipe import Recipe
from deepcanon.core.turn import Terms


class Toy(Model[Batch]):
    r"""A Gaussian with a learned mean and unit variance.

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
    likelihood_kind: LikelihoodKind = "exact"

    def __init__(self, features: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(features))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(features=2), Batch(torch.randn(32, 2, generator=torch.Generator().manual_seed(0)) + 1)

    def loss(self, batch: Batch) -> Terms:
        return {"nll": -self.log_prob(batch.x).mean()}

    def log_prob(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        samples: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        square = (x.flatten(1) - self.mean).square()
        return -0.5 * (square + math.log(2 * math.pi)).sum(-1)  # eq. (1)

    @torch.no_grad()
    def sample(self, n: int, *, context: Tensor | None = None, generator: Generator | None = None) -> Tensor:
        noise = torch.randn(n, len(self.mean), generator=generator, device=self.mean.device, dtype=self.mean.dtype)
        return self.mean + noise

"""The smallest models there are, for examples and tests of what holds a model."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core.batch import Batch, Labelled
from deepcanon.core.model import Evidence, Model
from deepcanon.core.recipe import Recipe
from deepcanon.core.roles import How
from deepcanon.core.turn import Terms


class Toy(Model[Batch]):
    r"""A Gaussian with a learned mean and unit variance.

    .. math:: -\log p(x) = \tfrac12 \lVert x - \mu \rVert^2 + \tfrac D2 \log 2\pi

    References:
        | Theoria motus corporum coelestium (Gauss, 1809), book 2, section 3

    Arguments:
        features: The dimension :math:`D` of the data.

    >>> model, batch = Toy.example()
    >>> model.loss(batch)["nll"].item() > 0
    True
    """

    recipe = Recipe(lr=0.1, epochs=5)
    evidence: Evidence = "exact"

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
        return -0.5 * (square + math.log(2 * math.pi)).sum(-1)

    @torch.no_grad()
    def sample(self, n: int, *, context: Tensor | None = None, generator: Generator | None = None) -> Tensor:
        noise = torch.randn(n, len(self.mean), generator=generator, device=self.mean.device, dtype=self.mean.dtype)
        return self.mean + noise


class ToyClassifier(Model[Labelled]):
    r"""A classifier with one small hidden layer, for methods to wrap in their examples.

    .. math:: p(y \mid x) = \operatorname{softmax}(W_2 \tanh(W_1 x + b_1) + b_2)_y

    References:
        | Learning representations by back-propagating errors (Rumelhart et al., 1986),
          https://doi.org/10.1038/323533a0

    Arguments:
        features: The number of features of an example.
        classes: The number of classes.

    >>> model, batch = ToyClassifier.example()
    >>> model.predict(batch.x).shape
    torch.Size([32])
    """

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(features, 8)
        self.last = nn.Linear(8, classes)

    @classmethod
    def example(cls) -> tuple[Self, Labelled]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0))
        return cls(features=2, classes=2), Labelled(x, (x.sum(-1) > 0).long())

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes)."""
        logits: Tensor = self.last(self.first(x.flatten(1)).tanh())
        return logits

    def loss(self, batch: Labelled) -> Terms:
        return {"nll": nn.functional.cross_entropy(self(batch.x), batch.y)}

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        chances = self(*inputs).softmax(-1)
        if how == "sample":
            return chances.multinomial(1, generator=generator).squeeze(-1)
        return chances if how == "mean" else chances.argmax(-1)

"""Multilayer perceptron with one hidden layer."""

from __future__ import annotations

from typing import Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core.batch import Labeled
from deepcanon.core.model import Model
from deepcanon.core.roles import How
from deepcanon.core.turn import Terms


class ToyClassifier(Model[Labeled]):
    r"""A multilayer perceptron with one small hidden layer: a classifier for methods to wrap in their examples.

    Also known as: feed-forward network, fully connected network.

    .. math:: p(y \mid x) = \operatorname{softmax}(W_2 \tanh(W_1 x + b_1) + b_2)_y \qquad (1)

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
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0))
        return cls(features=2, classes=2), Labeled(x, (x.sum(-1) > 0).long())

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes)."""
        logits: Tensor = self.last(self.first(x.flatten(1)).tanh())
        return logits

    def loss(self, batch: Labeled) -> Terms:
        return {"nll": nn.functional.cross_entropy(self(batch.x), batch.y)}

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        probabilities: Tensor = self(*inputs).softmax(-1)  # eq. (1)
        if how == "sample":
            return probabilities.multinomial(1, generator=generator).squeeze(-1)
        return probabilities if how == "mean" else probabilities.argmax(-1)

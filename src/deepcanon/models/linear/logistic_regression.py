"""Logistic regression."""

from __future__ import annotations

from typing import Literal, Self

import torch
from torch import Tensor

from deepcanon.core import Labeled
from deepcanon.core.checks import at_least, flat
from deepcanon.models._predictor import Predictor
from deepcanon.models.linear._convex import Convex, convex
from deepcanon.models.linear._two_classes import only_two, two_logits


class LogisticRegression(Convex, Predictor):
    r"""A linear binary classifier: the logistic sigmoid of a linear map is the probability of the second class.

    Also known as: logit model, binary logistic regression.

    .. math:: p(y = 1 \mid x) = \frac1{1 + e^{-(w^\top x + b)}} \qquad (1)

    The loss, the cross-entropy, is convex in :math:`w` and :math:`b`; the weights are initialized to zero, where both
    classes are equally probable. Linearly separable classes have no finite optimum: the weights grow as long as
    training lasts.

    References:
        | The regression analysis of binary sequences (Cox, 1958), https://doi.org/10.1111/j.2517-6161.1958.tb00292.x

    Arguments:
        features: The number of features of an example.
        classes: The number of classes, which is 2.
    """

    recipe = convex(epochs=20, iterations=25)

    def __init__(self, features: int, classes: Literal[2] = 2) -> None:
        super().__init__()
        at_least(1, features=features)
        only_two(classes, "logistic_regression")
        self.classes = classes
        self._build(features, outputs=1)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        return cls(features=3), Labeled(x, (x.sum(-1) > 0).long())

    def forward(self, x: Tensor) -> Tensor:
        """The logits of both classes, (B, 2); the first is 0."""
        return two_logits(self.linear(flat(x, self.features)))  # the logits of eq. (1)

"""Softmax regression."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from deepcanon.core import Labeled
from deepcanon.core.checks import at_least, flat
from deepcanon.models._predictor import Predictor
from deepcanon.models.linear._convex import Convex, convex


class SoftmaxRegression(Convex, Predictor):
    r"""A linear classifier: the softmax of a linear map gives the probabilities of the classes.

    Also known as: multinomial logistic regression, multiclass logistic regression, maximum entropy classifier.

    .. math:: p(y = k \mid x) = \frac{e^{w_k^\top x + b_k}}{\sum_j e^{w_j^\top x + b_j}} \qquad (1)

    The loss, the cross-entropy, is convex in :math:`W` and :math:`b`; the weights are initialized to zero, where all
    classes are equally probable. Classes that are linearly separable, as those of few examples with many features are,
    have no finite optimum: the weights grow as long as training lasts, and ``regularized`` holds them.

    References:
        | The regression analysis of binary sequences (Cox, 1958), https://doi.org/10.1111/j.2517-6161.1958.tb00292.x
        | Conditional logit analysis of qualitative choice behavior (McFadden, 1974)

    Arguments:
        features: The number of features of an example.
        classes: The number of classes.
    """

    recipe = convex(epochs=20, iterations=25)

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        at_least(1, features=features)
        at_least(2, classes=classes)
        self.classes = classes
        self._build(features, outputs=classes)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        return cls(features=3, classes=3), Labeled(x, x.argmax(-1))

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes)."""
        logits: Tensor = self.linear(flat(x, self.features))  # the logits of eq. (1)
        return logits

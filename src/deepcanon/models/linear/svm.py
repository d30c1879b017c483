"""Support vector machine (SVM)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import How, Labeled, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.losses.hinge import hinge
from deepcanon.models.linear._convex import Convex, convex
from deepcanon.models.linear._two_classes import two_logits

SHARPEST = 1e-4
"""The smoothing of the hinge at the end of training."""


class SVM(Convex):
    r"""A linear maximum-margin classifier, trained with the hinge loss and an L2 penalty.

    Also known as: linear SVM, maximum-margin classifier, support vector classifier.

    .. math:: \min_{w, b} \; \frac1N \sum_n \max(0, 1 - y_n (w^\top x_n + b)) + \frac\lambda2 \lVert w \rVert^2,
              \qquad y_n = \pm 1 \qquad (1)

    Two classes have one score, and the hyperplanes on which it is :math:`\pm 1` lie :math:`2 / \lVert w \rVert` apart:
    the smaller the weights, the wider the margin. Only the support vectors, the examples on the margin or on its wrong
    side, determine it. With more classes each has a score :math:`s_k = w_k^\top x + b_k`, and the hinge loss is that of
    Crammer and Singer, :math:`\max(0, 1 + \max_{k \ne y} s_k - s_y)`. The bias is not penalized, and :math:`\lambda =
    1 / (C N)` gives the hyperplane of scikit-learn's ``SVC(kernel="linear", C=C)``.

    The loss is convex but not differentiable everywhere: at the minimum its gradient jumps rather than vanishes. So
    training descends on a smooth upper bound of it, which comes closer as training goes on. With :math:`s_0 = 0` and
    :math:`s_1` the score of two classes, and :math:`\gamma` falling from 1 to :math:`10^{-4}`, it is

    .. math:: \gamma \log \sum_k e^{(s_k + [k \ne y] - s_y) / \gamma} \; \ge \;
              \max_k (s_k + [k \ne y] - s_y). \qquad (2)

    The hinge loss is a surrogate, an upper bound of the 0-1 loss; it is not a negative log-likelihood, and the SVM
    predicts no probabilities.

    References:
        | Support-vector networks (Cortes and Vapnik, 1995), https://doi.org/10.1007/BF00994018
        | On the algorithmic implementation of multiclass kernel-based vector machines (Crammer and Singer, 2001),
          https://www.jmlr.org/papers/v2/crammer01a.html
        | Pegasos: primal estimated sub-gradient solver for SVM (Shalev-Shwartz et al., 2011),
          https://doi.org/10.1007/s10107-010-0420-4
        | Smooth minimization of non-smooth functions (Nesterov, 2005), https://doi.org/10.1007/s10107-004-0552-5

    Arguments:
        features: The number of features of an example.
        classes: The number of classes.
        decay: The weight :math:`\lambda` of the penalty.
    """

    recipe = convex(epochs=20, iterations=25)
    surrogate = True

    def __init__(self, features: int, classes: int, decay: float = 1e-3) -> None:
        super().__init__()
        at_least(1, features=features)
        at_least(2, classes=classes)
        if decay < 0:
            raise UsageError(f"decay is the weight of a penalty, at least 0 (got {decay})")
        self.classes = classes
        self.decay = decay
        self._build(features, outputs=1 if classes == 2 else classes)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        return cls(features=3, classes=2), Labeled(x, (x.sum(-1) > 0).long())

    def forward(self, x: Tensor) -> Tensor:
        """The scores of the classes, (B, classes); with two classes the first is 0."""
        scores: Tensor = self.linear(flat(x, self.features))
        return two_logits(scores) if self.classes == 2 else scores

    def turns(self) -> Sequence[Turn[Labeled]]:
        return self._descents(self._smoothed)

    def loss(self, batch: Labeled) -> Terms:
        return {"hinge": self._hinge(batch), "penalty": self._penalty()}  # eq. (1)

    def _smoothed(self, batch: Labeled) -> Terms:
        """The loss with a smooth upper bound in place of the hinge."""
        scores, gamma = self(*batch.inputs), SHARPEST**self.progress
        other = 1 - nn.functional.one_hot(batch.y, self.classes).to(scores.dtype)
        excess = scores + other - scores.gather(1, batch.y.unsqueeze(1))  # (B, classes)
        return {"hinge": gamma * (excess / gamma).logsumexp(1).mean(), "penalty": self._penalty()}  # eq. (2)

    def _penalty(self) -> Tensor:
        return 0.5 * self.decay * self.linear.weight.square().sum()

    @torch.no_grad()
    def metrics(self, batch: Labeled) -> Terms:
        right = self.predict(*batch.inputs) == batch.y
        return {"accuracy": right.to(self.linear.weight.dtype).mean(), "hinge": self._hinge(batch)}

    @torch.no_grad()
    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The predicted class, (B,); an SVM has no probabilities: in ``mean``, (B, classes), the class has 1."""
        one_of(("mode", "mean", "sample"), how=how)
        scores = self(*inputs)
        predicted = scores.argmax(-1)
        return nn.functional.one_hot(predicted, self.classes).to(scores.dtype) if how == "mean" else predicted

    def _hinge(self, batch: Labeled) -> Tensor:
        scores = self(*batch.inputs)
        return hinge(scores[:, 1] if self.classes == 2 else scores, batch.y)

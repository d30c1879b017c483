"""FixMatch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from deepcanon.core import Labeled, Model, SemiBatch, Terms
from deepcanon.methods._semi_supervised import SemiSupervised, toy_example, weak_and_strong

LONGER = 5
"""How many times as long as the wrapped model's recipe training takes."""


class FixMatch(SemiSupervised):
    r"""Semi-supervised learning by confident pseudo-labels and consistency regularization.

    With :math:`\alpha` a weak and :math:`\mathcal A` a strong augmentation, the pseudo-label of an unlabeled example u
    and the loss are

    .. math:: q_u = p(y \mid \alpha(u)), \qquad \hat y_u = \arg\max q_u, \qquad (1)

    .. math:: -\frac1B \sum_x \log p(y_x \mid \alpha(x))
              - \frac\lambda B \sum_u \mathbb 1[\max q_u \ge \tau] \log p(\hat y_u \mid \mathcal A(u)). \qquad (2)

    No gradient flows through :math:`q`. A batch holds as many labeled as unlabeled examples; labeled ones, of which
    there are few, come again and again. Few predictions are confident at first, and pseudo-labels spread slowly: the
    recipe is the wrapped model's, five times as long.

    References:
        | FixMatch: Simplifying Semi-Supervised Learning with Consistency and Confidence (Sohn et al., 2020),
          https://arxiv.org/abs/2001.07685

    Arguments:
        model: The classifier, whose forward gives logits.
        weight: The weight :math:`\lambda` of the unlabeled examples; at 0 they are not used.
        threshold: The confidence :math:`\tau` from which a pseudo-label counts; above 1 none does.
        weak: The strength of the weak augmentation: of images, the largest shift in parts of their side; of other
            examples, the standard deviation of Gaussian noise.
        strong: The strength of the strong augmentation: of images, the side of the square that is cut out in parts of
            theirs, the change of contrast, and four times the shift; of others, the standard deviation of the noise.
        flip: Whether images may be flipped horizontally.
        labeled: The augmentation of labeled examples in training.
    """

    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "none"}
    supervised: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "strong"}

    def __init__(
        self,
        model: Model[Any],
        weight: float = 1.0,
        threshold: float = 0.95,
        weak: float = 0.1,
        strong: float = 0.5,
        flip: bool = False,
        labeled: Literal["none", "weak", "strong"] = "weak",
    ) -> None:
        weak_augment, strong_augment, of_labeled = weak_and_strong(weak, strong, flip, labeled)
        super().__init__(model, weight, of_labeled)
        self.weak, self.strong, self.threshold = weak_augment, strong_augment, threshold
        if weight > 0 and self.uses_unlabeled:
            self.__dict__["recipe"] = replace(self.recipe, epochs=LONGER * self.recipe.epochs)

    @classmethod
    def example(cls) -> tuple[Self, SemiBatch]:
        model, batch = toy_example()
        return cls(model, threshold=0.6), batch

    @property
    def uses_unlabeled(self) -> bool:
        return self.threshold <= 1

    def unlabeled_term(self, x: Tensor) -> tuple[str, Tensor]:
        with torch.no_grad():
            confidence, label = self.logits(self.weak(x)).softmax(-1).max(-1)  # eq. (1)
        nll = cross_entropy(self.logits(self.strong(x)), label, reduction="none")
        return "pseudo_labels", (nll * (confidence >= self.threshold)).mean()  # eq. (2)

    def own_metrics(self, batch: Labeled) -> Terms:
        """``confident``, the share of predictions that reach the threshold."""
        sure = self.model.predict(*batch.inputs, how="mean").max(-1).values >= self.threshold  # type: ignore[operator]
        return {"confident": sure.float().mean()}

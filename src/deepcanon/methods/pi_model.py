"""Pi-model (consistency regularization)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from deepcanon.core import Model, SemiBatch
from deepcanon.methods._semi_supervised import SemiSupervised, ramp_up, toy_example, warming_up, weak_only


class PiModel(SemiSupervised):
    r"""Semi-supervised learning by consistency of the predictions for two augmentations of an unlabeled example.

    Also known as: self-ensembling.

    With :math:`\alpha` and :math:`\alpha'` two random augmentations and :math:`p(u)` the probabilities of the :math:`C`
    classes, the loss is

    .. math:: -\frac1B \sum_x \log p(y_x \mid \alpha(x))
              + w(t) \frac1{CB} \sum_u \lVert p(\alpha(u)) - p(\alpha'(u)) \rVert^2. \qquad (1)

    The weight ramps up, since early predictions are noise, until the share :math:`t_0` of the training is done,

    .. math:: w(t) = w\, e^{-5 \max(0,\, 1 - t / t_0)^2}, \qquad (2)

    and is :math:`w` in eval mode.

    References:
        | Temporal Ensembling for Semi-Supervised Learning (Laine and Aila, 2017), https://arxiv.org/abs/1610.02242

    Arguments:
        model: The classifier, whose forward gives logits.
        weight: The weight :math:`w` of the unlabeled examples; at 0 they are not used.
        strength: The strength of the augmentation: of images, the largest shift in parts of their side; of other
            examples, the standard deviation of Gaussian noise.
        flip: Whether images may be flipped horizontally.
        warmup: The share :math:`t_0` of the training during which the weight ramps up.
        labeled: The augmentation of labeled examples in training.
    """

    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "none"}
    supervised: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "weak"}

    def __init__(
        self,
        model: Model[Any],
        weight: float = 30.0,
        strength: float = 0.1,
        flip: bool = False,
        warmup: float = 0.3,
        labeled: Literal["none", "weak"] = "weak",
    ) -> None:
        perturb, of_labeled = weak_only(strength, flip, labeled)
        super().__init__(model, weight, of_labeled)
        self.perturb, self.warmup = perturb, warming_up(warmup)

    @classmethod
    def example(cls) -> tuple[Self, SemiBatch]:
        model, batch = toy_example()
        return cls(model), batch

    def unlabeled_term(self, x: Tensor) -> tuple[str, Tensor]:
        both = torch.cat([self.perturb(x), self.perturb(x)])
        one, other = self.logits(both).softmax(-1).chunk(2)
        distance = (one - other).square().mean()
        return "consistency", ramp_up(self, self.warmup) * distance  # eqs. (1) and (2)

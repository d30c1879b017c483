"""Distribution alignment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from deepcanon.core import Model, SemiBatch
from deepcanon.core.checks import positive
from deepcanon.methods._semi_supervised import toy_example, weak_and_strong
from deepcanon.methods._soft_labels import Aligned, sharpened


class DistributionAlignment(Aligned):
    r"""Semi-supervised learning by guessed labels whose marginal distribution is that of the given labels.

    With :math:`\alpha` a weak and :math:`\mathcal A` a strong augmentation, the prediction for an unlabeled example u
    is scaled by the ratio of the distribution of labels :math:`p(y)` to the mean :math:`\tilde p(y)` of recent
    predictions, so that no class takes all,

    .. math:: \tilde q_u \propto p(y \mid \alpha(u))\, \frac{p(y)}{\tilde p(y)}, \qquad (1)

    sharpened with a temperature, and is the target of the strong augmentation:

    .. math:: q_u \propto \tilde q_u^{1/T}, \qquad (2)

    .. math:: -\frac1B \sum_x \log p(y_x \mid \alpha(x))
              - \frac\lambda B \sum_u \sum_y q_u(y) \log p(y \mid \mathcal A(u)). \qquad (3)

    No gradient flows through :math:`q`. The mean is over the last 128 batches.

    References:
        | ReMixMatch: Semi-Supervised Learning with Distribution Alignment and Augmentation Anchoring (Berthelot et al.,
          2020), https://arxiv.org/abs/1911.09785
        | Unsupervised Classifiers, Mutual Information and 'Phantom Targets' (Bridle et al., 1992),
          https://proceedings.neurips.cc/paper/1991/hash/a8abb4bb284b5b27aa7cb790dc20f80b-Abstract.html

    Arguments:
        model: The classifier, whose forward gives logits.
        weight: The weight :math:`\lambda` of the unlabeled examples; at 0 they are not used.
        temperature: The temperature :math:`T` of the guessed labels; at 1 they stay as they are.
        weak: The strength of the weak augmentation: of images, the largest shift in parts of their side; of other
            examples, the standard deviation of Gaussian noise.
        strong: The strength of the strong augmentation, as that of FixMatch.
        flip: Whether images may be flipped horizontally.
        labeled: The augmentation of labeled examples in training.
    """

    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "none"}
    supervised: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "strong"}

    def __init__(
        self,
        model: Model[Any],
        weight: float = 1.0,
        temperature: float = 0.5,
        weak: float = 0.1,
        strong: float = 0.5,
        flip: bool = False,
        labeled: Literal["none", "weak", "strong"] = "weak",
    ) -> None:
        positive(temperature=temperature)
        weak_augment, strong_augment, of_labeled = weak_and_strong(weak, strong, flip, labeled)
        super().__init__(model, weight, of_labeled)
        self.weak, self.strong, self.temperature = weak_augment, strong_augment, temperature

    @classmethod
    def example(cls) -> tuple[Self, SemiBatch]:
        model, batch = toy_example()
        return cls(model), batch

    def unlabeled_term(self, x: Tensor) -> tuple[str, Tensor]:
        with torch.no_grad():
            aligned = self.alignment(self.logits(self.weak(x)).softmax(-1))  # eq. (1)
            guessed = sharpened(aligned, self.temperature)  # eq. (2)
        return "guessed_labels", cross_entropy(self.logits(self.strong(x)), guessed)  # eq. (3)

"""ReMixMatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from deepcanon.core import Labeled, Model, SemiBatch, Terms
from deepcanon.core.checks import at_least, positive
from deepcanon.methods._semi_supervised import ramp_up, toy_example, warming_up, weak_and_strong
from deepcanon.methods._soft_labels import Aligned, mixed_up, sharpened


class ReMixMatch(Aligned):
    r"""Semi-supervised learning by MixMatch with distribution alignment and augmentation anchoring.

    The label of an unlabeled example u is guessed from its weak augmentation :math:`\alpha(u)` alone, aligned with the
    distribution :math:`p(y)` of the labels by the mean :math:`\tilde p(y)` of recent predictions, and sharpened:

    .. math:: \tilde q_u \propto p(y \mid \alpha(u))\, p(y) / \tilde p(y), \quad
              q_u \propto \tilde q_u^{1/T}. \qquad (1)

    It is the target of the weak augmentation and of K strong ones :math:`\mathcal A_k(u)`, which it anchors. These and
    strongly augmented labeled examples are mixed with others in random order,

    .. math:: \lambda \sim \mathrm{Beta}(a, a), \quad \lambda' = \max(\lambda, 1 - \lambda), \quad
              x' = \lambda' x_1 + (1 - \lambda') x_2, \quad q' = \lambda' q_1 + (1 - \lambda') q_2, \qquad (2)

    and with the cross-entropy :math:`H` the loss is

    .. math:: \frac1{|X'|} \sum_{X'} H(q', p(\cdot \mid x')) + \frac{w(t)}{|U'|} \sum_{U'} H(q', p(\cdot \mid u'))
              + w(t) \frac vB \sum_u H(q_u, p(\cdot \mid \mathcal A_1(u))). \qquad (3)

    No gradient flows through the guesses. The weight ramps up as that of the Π-model. In eval mode nothing is mixed.
    The paper's further loss, of a head that recognizes by how much an image is rotated, is left out: a turned digit
    may be another one.

    References:
        | ReMixMatch: Semi-Supervised Learning with Distribution Alignment and Augmentation Anchoring (Berthelot et al.,
          2020), https://arxiv.org/abs/1911.09785

    Arguments:
        model: The classifier, whose forward gives logits.
        weight: The weight :math:`w` of the unlabeled examples; at 0 they are not used, and nothing is mixed.
        unmixed: The weight :math:`v` of the unlabeled examples that are not mixed.
        copies: The number K of strong augmentations of each unlabeled example.
        temperature: The temperature :math:`T` of the guessed labels; at 1 they stay as they are.
        alpha: The parameter :math:`a` of the Beta distribution; the larger, the more equal the parts of a mixture.
        weak: The strength of the weak augmentation: of images, the largest shift in parts of their side; of other
            examples, the standard deviation of Gaussian noise.
        strong: The strength of the strong augmentation, as that of FixMatch.
        flip: Whether images may be flipped horizontally.
        warmup: The share of the training during which the weight grows.
        labeled: The augmentation of labeled examples in training.
    """

    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "none"}
    supervised: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "strong"}

    def __init__(
        self,
        model: Model[Any],
        weight: float = 1.5,
        unmixed: float = 0.5,
        copies: int = 2,
        temperature: float = 0.5,
        alpha: float = 0.75,
        weak: float = 0.1,
        strong: float = 0.5,
        flip: bool = False,
        warmup: float = 0.3,
        labeled: Literal["none", "weak", "strong"] = "strong",
    ) -> None:
        at_least(1, copies=copies)
        positive(temperature=temperature, alpha=alpha)
        weak_augment, strong_augment, of_labeled = weak_and_strong(weak, strong, flip, labeled)
        super().__init__(model, weight, of_labeled)
        self.weak, self.strong = weak_augment, strong_augment
        self.unmixed, self.copies, self.warmup = unmixed, copies, warming_up(warmup)
        self.temperature, self.alpha = temperature, alpha

    @classmethod
    def example(cls) -> tuple[Self, SemiBatch]:
        model, batch = toy_example()
        return cls(model), batch

    @torch.no_grad()
    def guess(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The weak augmentation of unlabeled examples, and the guessed label of each."""
        weak = self.weak(x)
        return weak, sharpened(self.alignment(self.logits(weak).softmax(-1)), self.temperature)  # eq. (1)

    def unlabeled_term(self, x: Tensor) -> tuple[str, Tensor]:
        return "guessed_labels", cross_entropy(self.logits(self.strong(x)), self.guess(x)[1])

    def around(self, loss: Callable[[Any], Terms], batch: Labeled) -> Terms:
        if not (self.training and self.weight > 0 and isinstance(batch, SemiBatch)):
            return super().around(loss, batch)
        weak, guesses = self.guess(batch.unlabeled)
        views = [*(self.strong(batch.unlabeled) for _ in range(self.copies)), weak]
        x = batch.x if self.augment is None else self.augment(batch.x)
        targets = torch.cat([one_hot(batch.y, guesses.shape[1]).to(guesses), guesses.repeat(len(views), 1)])
        mixed, mixed_targets = mixed_up(torch.cat([x, *views]), targets, self.alpha)  # eq. (2)
        logits, few = self.logits(torch.cat([mixed, views[0]])), len(x)
        of_labeled, of_mixed, of_unmixed = logits.tensor_split([few, len(mixed)])
        unlabeled = cross_entropy(of_mixed, mixed_targets[few:])
        unlabeled = unlabeled + self.unmixed * cross_entropy(of_unmixed, guesses)
        return {
            "nll": cross_entropy(of_labeled, mixed_targets[:few]),
            "guessed_labels": self.weight * ramp_up(self, self.warmup) * unlabeled,  # eq. (3)
        }

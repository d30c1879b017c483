"""MixMatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from deepcanon.core import Labeled, Model, SemiBatch, Terms
from deepcanon.core.checks import at_least, positive
from deepcanon.methods._semi_supervised import SemiSupervised, toy_example, warming_up, weak_only
from deepcanon.methods._soft_labels import mixed_up, sharpened


class MixMatch(SemiSupervised):
    r"""Semi-supervised learning by sharpened guesses of labels and MixUp of labeled and unlabeled examples.

    With K random augmentations :math:`\alpha_k(u)` of an unlabeled example, its guessed label is their mean
    prediction, sharpened with a temperature:

    .. math:: q_u \propto \Bigl(\frac1K \sum_k p(y \mid \alpha_k(u))\Bigr)^{1/T}. \qquad (1)

    All examples :math:`(x, q)`, labeled ones with their own label, are mixed with others in random order,

    .. math:: \lambda \sim \mathrm{Beta}(a, a), \quad \lambda' = \max(\lambda, 1 - \lambda), \quad
              x' = \lambda' x_1 + (1 - \lambda') x_2, \quad q' = \lambda' q_1 + (1 - \lambda') q_2, \qquad (2)

    and the loss is, over mixed labeled examples X' and mixed unlabeled ones U',

    .. math:: -\frac1{|X'|} \sum_{x', q' \in X'} \sum_y q'(y) \log p(y \mid x')
              + w(t) \frac1{C |U'|} \sum_{u', q' \in U'} \lVert q' - p(\cdot \mid u') \rVert^2, \qquad (3)

    with :math:`w(t) = w \min(1, t / t_0)` at the share t of the training. No gradient flows through the guesses. In
    eval mode nothing is mixed, and all of the weight counts.

    References:
        | MixMatch: A Holistic Approach to Semi-Supervised Learning (Berthelot et al., 2019),
          https://arxiv.org/abs/1905.02249
        | mixup: Beyond Empirical Risk Minimization (Zhang et al., 2018), https://arxiv.org/abs/1710.09412

    Arguments:
        model: The classifier, whose forward gives logits.
        weight: The weight :math:`w` of the unlabeled examples; at 0 they are not used, and nothing is mixed.
        copies: The number K of augmentations of each unlabeled example.
        temperature: The temperature :math:`T` of the guessed labels; at 1 they stay as they are.
        alpha: The parameter :math:`a` of the Beta distribution; the larger, the more equal the parts of a mixture.
        strength: The strength of the augmentation: of images, the largest shift in parts of their side; of other
            examples, the standard deviation of Gaussian noise.
        flip: Whether images may be flipped horizontally.
        warmup: The share :math:`t_0` of the training during which the weight grows.
        labeled: The augmentation of labeled examples in training.
    """

    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "none"}
    supervised: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "weak"}

    def __init__(
        self,
        model: Model[Any],
        weight: float = 30.0,
        copies: int = 2,
        temperature: float = 0.5,
        alpha: float = 0.75,
        strength: float = 0.1,
        flip: bool = False,
        warmup: float = 0.3,
        labeled: Literal["none", "weak"] = "weak",
    ) -> None:
        at_least(1, copies=copies)
        positive(temperature=temperature, alpha=alpha)
        perturb, of_labeled = weak_only(strength, flip, labeled)
        super().__init__(model, weight, of_labeled)
        self.perturb, self.copies, self.warmup = perturb, copies, warming_up(warmup)
        self.temperature, self.alpha = temperature, alpha

    @classmethod
    def example(cls) -> tuple[Self, SemiBatch]:
        model, batch = toy_example()
        return cls(model), batch

    @torch.no_grad()
    def guess(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """K augmentations of unlabeled examples, one set after the other, and the guessed label of each."""
        views = torch.cat([self.perturb(x) for _ in range(self.copies)])
        shares = self.logits(views).softmax(-1).view(self.copies, len(x), -1)
        return views, sharpened(shares.mean(0), self.temperature).repeat(self.copies, 1)  # eq. (1)

    def unlabeled_term(self, x: Tensor) -> tuple[str, Tensor]:
        views, guesses = self.guess(x)
        return "consistency", (self.logits(views).softmax(-1) - guesses).square().mean()

    def around(self, loss: Callable[[Any], Terms], batch: Labeled) -> Terms:
        if not (self.training and self.weight > 0 and isinstance(batch, SemiBatch)):
            return super().around(loss, batch)
        views, guesses = self.guess(batch.unlabeled)
        x = batch.x if self.augment is None else self.augment(batch.x)
        labels = one_hot(batch.y, guesses.shape[1]).to(guesses)
        mixed, targets = mixed_up(torch.cat([x, views]), torch.cat([labels, guesses]), self.alpha)  # eq. (2)
        logits, few = self.logits(mixed), len(x)
        distance = (logits[few:].softmax(-1) - targets[few:]).square().mean()
        ramp = min(1.0, self.progress / self.warmup) if self.warmup > 0 else 1.0
        return {
            "nll": cross_entropy(logits[:few], targets[:few]),
            "consistency": self.weight * ramp * distance,  # eq. (3)
        }

"""Pseudo-labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from torch import Tensor
from torch.nn.functional import cross_entropy

from deepcanon.core import Model, SemiBatch, UsageError
from deepcanon.methods._semi_supervised import SemiSupervised, toy_example, weak_only


class PseudoLabel(SemiSupervised):
    r"""Semi-supervised learning from the classifier's own predictions, taken as labels of unlabeled examples.

    Also known as: self-training.

    The pseudo-label of an unlabeled example u is the most probable class, and the loss

    .. math:: \hat y_u = \arg\max_y p(y \mid u), \qquad (1)

    .. math:: -\frac1B \sum_x \log p(y_x \mid x) - \frac{w(t)}B \sum_u \log p(\hat y_u \mid u). \qquad (2)

    Pseudo-labels are drawn anew at every step. Their weight grows from 0 at the share :math:`t_1` of the training
    to all of it at the share :math:`t_2`, since early predictions are noise,

    .. math:: w(t) = w \min\left(1, \max\left(0, \frac{t - t_1}{t_2 - t_1}\right)\right), \qquad (3)

    and is :math:`w` in eval mode. The term pushes predictions away from the decision boundary, as the minimum of
    their entropy would.

    References:
        | Pseudo-Label: The Simple and Efficient Semi-Supervised Learning Method for Deep Neural Networks (Lee, 2013),
          https://www.kaggle.com/blobs/download/forum-message-attachment-files/746/pseudo_label_final.pdf

    Arguments:
        model: The classifier, whose forward gives logits.
        weight: The weight :math:`w` of the unlabeled examples; at 0 they are not used.
        begin: The share :math:`t_1` of the training at which pseudo-labels begin to count.
        until: The share :math:`t_2` of the training at which they count in full.
        strength: The strength of the augmentation: of images, the largest shift in parts of their side; of other
            examples, the standard deviation of Gaussian noise.
        flip: Whether images may be flipped horizontally.
        labeled: The augmentation of labeled examples in training.
    """

    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "none"}
    supervised: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "labeled": "weak"}

    def __init__(
        self,
        model: Model[Any],
        weight: float = 1.0,
        begin: float = 0.1,
        until: float = 0.6,
        strength: float = 0.1,
        flip: bool = False,
        labeled: Literal["none", "weak"] = "weak",
    ) -> None:
        if not 0 <= begin < until <= 1:
            raise UsageError(
                f"begin and until are shares of the training, 0 <= begin < until <= 1 ({begin=}, {until=})"
            )
        perturb, of_labeled = weak_only(strength, flip, labeled)
        super().__init__(model, weight, of_labeled)
        self.perturb, self.begin, self.until = perturb, begin, until

    @classmethod
    def example(cls) -> tuple[Self, SemiBatch]:
        model, batch = toy_example()
        return cls(model), batch

    def unlabeled_term(self, x: Tensor) -> tuple[str, Tensor]:
        logits = self.logits(self.perturb(x))
        labels = logits.detach().argmax(-1)  # eq. (1)
        return "pseudo_labels", self.ramp() * cross_entropy(logits, labels)  # eq. (2)

    def ramp(self) -> float:
        """The share of the weight that counts by now; in eval mode all of it."""
        if not self.training:
            return 1.0
        return min(1.0, max(0.0, (self.progress - self.begin) / (self.until - self.begin)))  # eq. (3)

"""The engine of semi-supervised methods: a classifier trained on few labeled and many unlabeled examples."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from deepcanon.augment.perturbations import strongly, weakly
from deepcanon.core import Descend, Labeled, Model, SemiBatch, Terms, Turn, UsageError, methods_of
from deepcanon.core.checks import one_of
from deepcanon.core.precision import full
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._method import Method

Augment = Callable[[Tensor], Tensor]
"""Random changes of the examples of a batch that keep their labels."""


class SemiSupervised(Method[SemiBatch]):
    """Semi-supervised learning: the classifier's own loss on labeled examples and a term on unlabeled ones.

    The ``forward`` of the wrapped model gives logits, (B, classes). In training its labeled examples are augmented by
    ``augment``. Where no unlabeled example can count, the term is not computed and no random number is drawn for it.
    """

    supervised: ClassVar[Mapping[str, Any]]
    """Arguments of the supervised baseline: labeled examples alone, augmented as strongly as the others."""

    def __init__(self, model: Model[Any], weight: float, augment: Augment | None) -> None:
        super().__init__(model)
        # Validation labels are many where those to learn from are few; to choose by them would be to learn from them.
        self.__dict__["recipe"] = replace(self.recipe, keep_weights="last")
        if "predict" not in methods_of(model):
            raise UsageError(f"{self.name()} wraps a classifier; {model.name()} has no predict")
        if weight < 0:
            raise UsageError(f"weight must be 0 or more (got {weight:g})")
        self.weight = weight
        self.augment = augment

    def turns(self) -> Sequence[Turn[SemiBatch]]:
        turns = self.model.turns()
        if len(turns) != 1 or not isinstance(turns[0], Descend) or turns[0].gradient is not None:
            raise UsageError(
                f"{self.name()} wraps a model that descends on its loss; {self.model.name()} does otherwise"
            )
        return [replace(turns[0], loss=self.loss)]

    def loss(self, batch: Labeled) -> Terms:
        return self.around(self.model.loss, batch)

    def around(self, loss: Callable[[Any], Terms], batch: Labeled) -> Terms:
        """The loss of the labeled examples, and the weighted term of the unlabeled ones."""
        labeled = batch if self.augment is None or not self.training else Labeled(self.augment(batch.x), batch.y)
        terms = dict(loss(labeled))
        if isinstance(batch, SemiBatch) and self.weight > 0 and self.uses_unlabeled:
            name, value = self.unlabeled_term(batch.unlabeled)
            terms[name] = self.weight * value
        return terms

    @property
    def uses_unlabeled(self) -> bool:
        """Whether an unlabeled example can count at all."""
        return True

    @abstractmethod
    def unlabeled_term(self, x: Tensor) -> tuple[str, Tensor]:
        """The name of the term and its mean over the unlabeled examples, before it is weighted."""

    def logits(self, x: Tensor) -> Tensor:
        """The wrapped model's logits, (B, classes)."""
        logits: Tensor = full(self.model(x))
        if logits.ndim != 2 or logits.shape[1] < 2:
            raise UsageError(
                f"{self.name()} wraps a classifier whose forward gives logits, (examples, classes); "
                f"that of {self.model.name()} gives {tuple(logits.shape)}"
            )
        return logits


def weak_only(strength: float, flip: bool, labeled: str) -> tuple[Augment, Augment | None]:
    """The weak augmentation of this strength, and that of labeled examples by its name."""
    _not_negative(strength=strength)
    one_of(("none", "weak"), labeled=labeled)
    weak = partial(weakly, strength=strength, flip=flip)
    return weak, None if labeled == "none" else weak


def weak_and_strong(weak: float, strong: float, flip: bool, labeled: str) -> tuple[Augment, Augment, Augment | None]:
    """The weak and the strong augmentation of these strengths, and that of labeled examples by its name."""
    _not_negative(weak=weak, strong=strong)
    one_of(("none", "weak", "strong"), labeled=labeled)
    both = {"weak": partial(weakly, strength=weak, flip=flip), "strong": partial(strongly, strength=strong, flip=flip)}
    return both["weak"], both["strong"], both.get(labeled)


def _not_negative(**strengths: float) -> None:
    for name, strength in strengths.items():
        if strength < 0:
            raise UsageError(f"{name} must be 0 or more (got {strength:g})")


def warming_up(warmup: float) -> float:
    """Check the share of the training during which a weight grows."""
    if not 0 <= warmup <= 1:
        raise UsageError(f"warmup is a share of the training, from 0 to 1 (got {warmup:g})")
    return warmup


def ramp_up(method: Model[Any], warmup: float) -> float:
    """The share of a weight that counts by now: it grows as a Gaussian until the share ``warmup`` of the training.

    In eval mode all of it counts, since a measure must not depend on when it is taken.
    """
    if not method.training or warmup == 0:
        return 1.0
    return math.exp(-5 * max(0.0, 1 - method.progress / warmup) ** 2)


def toy_example() -> tuple[ToyClassifier, SemiBatch]:
    """A tiny classifier, and two clouds of points of which some have labels."""
    random = torch.Generator().manual_seed(0)
    y = torch.arange(64) % 2
    x = torch.randn(64, 2, generator=random) + 4 * y.unsqueeze(1)
    return ToyClassifier(features=2, classes=2), SemiBatch(x[:32], y[:32], x[32:])

"""Knowledge distillation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from deepcanon.core import Labeled, Model, Terms, Turn, UsageError, methods_of
from deepcanon.core.checks import positive
from deepcanon.core.modes import eval_mode
from deepcanon.core.precision import full
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.losses import kl_divergence
from deepcanon.methods._method import Method, descents


class Distillation(Method[Labeled]):
    r"""Training of a small student on the softened predictions of a larger teacher.

    Also known as: teacher-student learning, model compression.

    With logits :math:`v` of the teacher and :math:`z` of the student, a temperature :math:`T` and softened
    probabilities

    .. math:: q = \operatorname{softmax}(v / T), \qquad p = \operatorname{softmax}(z / T), \qquad (1)

    the student's loss is

    .. math:: (1 - \lambda)\, \ell(x, y) + \lambda\, T^2 D(q \,\|\, p), \qquad (2)

    where :math:`\ell` is its own loss of the labels; in eval mode it is the latter alone. The factor :math:`T^2` keeps
    the gradient's scale: for large T that of the second term is the gradient of half the squared distance of the
    centered logits. The teacher learns first, in a share of the training, unless it is trained already; then the share
    is 0.

    References:
        | Distilling the Knowledge in a Neural Network (Hinton et al., 2015), https://arxiv.org/abs/1503.02531

    Arguments:
        model: The student, a classifier whose forward gives logits.
        teacher: The teacher, a classifier of the same classes; on the command line, its name or the folder of its run.
        weight: The weight :math:`\lambda` of the teacher's predictions, from 0 to 1.
        temperature: The temperature :math:`T`.
        teaching: The share of the training in which the teacher is trained, before the student is; 0 for a teacher that
            is trained already.
    """

    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "teaching": 0.0}
    null_name: ClassVar[str] = "the student alone"

    def __init__(
        self,
        model: Model[Any],
        teacher: Model[Any],
        weight: float = 0.7,
        temperature: float = 3.0,
        teaching: float = 0.5,
    ) -> None:
        super().__init__(model)
        positive(temperature=temperature)
        if not 0 <= weight <= 1:
            raise UsageError(f"weight is from 0 to 1 (got {weight:g})")
        if not 0 <= teaching < 1:
            raise UsageError(f"teaching is a share of the training, from 0 to below 1 (got {teaching:g})")
        for each in (model, teacher):
            if "predict" not in methods_of(each):
                raise UsageError(f"distillation is from a classifier to another; {each.name()} has no predict")
        self.teacher = teacher.requires_grad_(teaching > 0)
        self.weight, self.temperature, self.teaching = weight, temperature, teaching

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        model, batch = ToyClassifier.example()
        return cls(model, ToyClassifier(features=2, classes=2), weight=0.1, temperature=1.0), batch

    def prepare(self, data: Iterable[Labeled]) -> None:
        super().prepare(data)
        if self.teaching > 0:
            self.teacher.prepare(data)

    def turns(self) -> Sequence[Turn[Labeled]]:
        """The teacher's turns, then the student's."""
        begin = self.teaching
        first = descents(self.teacher, self.name()) if begin > 0 else []
        return [
            *(replace(turn, name=f"teacher {turn.name}", share=(0.0, begin)) for turn in first),
            *(
                replace(turn, loss=partial(self.around, turn.loss), share=(begin, 1.0))
                for turn in descents(self.model, self.name())
            ),
        ]

    def around(self, loss: Callable[[Labeled], Terms], batch: Labeled) -> Terms:
        if self.weight == 0 or not self.training:
            return loss(batch)
        terms = {name: (1 - self.weight) * term for name, term in loss(batch).items()} if self.weight < 1 else {}
        return {**terms, "distilled": self.weight * self.distilled(*batch.inputs)}  # eq. (2)

    def distilled(self, *inputs: Tensor) -> Tensor:
        """How far the student's softened predictions are from the teacher's, times the square of the temperature."""
        with torch.no_grad(), eval_mode(self.teacher):
            taught = (full(self.teacher(*inputs)) / self.temperature).softmax(-1)
        logits = full(self.model(*inputs))
        if logits.shape != taught.shape:
            raise UsageError(f"the teacher gives logits {tuple(taught.shape)}, and the student {tuple(logits.shape)}")
        return self.temperature**2 * kl_divergence(logits / self.temperature, taught)  # eq. (1)

"""Mean teacher."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from deepcanon.core import Descend, Evaluated, Labeled, Model, SemiBatch, Terms, Turn, UsageError, methods_of
from deepcanon.methods._semi_supervised import SemiSupervised, ramp_up, toy_example, warming_up, weak_only


class MeanTeacher(SemiSupervised):
    r"""Semi-supervised learning by consistency with a teacher, the moving average of the student's weights.

    After each step of the student :math:`\theta` the teacher follows,

    .. math:: \theta' \leftarrow \beta_t \theta' + (1 - \beta_t)\, \theta, \qquad
              \beta_t = \min\bigl(\beta, 1 - \tfrac1t\bigr), \qquad (1)

    and with two random augmentations of unlabeled examples, :math:`\alpha` and :math:`\alpha'`, the student's loss is

    .. math:: -\frac1B \sum_x \log p_\theta(y_x \mid \alpha(x))
              + w(t) \frac1{CB} \sum_u \lVert p_\theta(\alpha(u)) - p_{\theta'}(\alpha'(u)) \rVert^2. \qquad (2)

    The weight ramps up as that of the Π-model. The teacher predicts; ``forward`` is
    the student's. With :math:`\beta = 0` both are the same.

    References:
        | Mean teachers are better role models: Weight-averaged consistency targets improve semi-supervised deep
          learning results (Tarvainen and Valpola, 2017), https://arxiv.org/abs/1703.01780

    Arguments:
        model: The classifier, whose forward gives logits: the student.
        weight: The weight :math:`w` of the unlabeled examples; at 0 they are not used.
        decay: The decay :math:`\beta` of the moving average.
        strength: The strength of the augmentation: of images, the largest shift in parts of their side; of other
            examples, the standard deviation of Gaussian noise.
        flip: Whether images may be flipped horizontally.
        warmup: The share of the training during which the weight grows.
        labeled: The augmentation of labeled examples in training.
    """

    null: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "decay": 0.0, "labeled": "none"}
    supervised: ClassVar[Mapping[str, Any]] = {"weight": 0.0, "decay": 0.0, "labeled": "weak"}
    steps: Tensor

    def __init__(
        self,
        model: Model[Any],
        weight: float = 30.0,
        decay: float = 0.99,
        strength: float = 0.1,
        flip: bool = False,
        warmup: float = 0.3,
        labeled: Literal["none", "weak"] = "weak",
    ) -> None:
        if not 0 <= decay < 1:
            raise UsageError(f"decay is at least 0 and below 1 (got {decay:g})")
        perturb, of_labeled = weak_only(strength, flip, labeled)
        super().__init__(model, weight, of_labeled)
        self.perturb, self.decay, self.warmup = perturb, decay, warming_up(warmup)
        self.teacher = copy.deepcopy(model).requires_grad_(False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.__dict__.update({name: getattr(self.teacher, name) for name in methods_of(model)})

    @classmethod
    def example(cls) -> tuple[Self, SemiBatch]:
        model, batch = toy_example()
        return cls(model), batch

    def prepare(self, data: Iterable[SemiBatch]) -> None:
        super().prepare(data)
        self.teacher.load_state_dict(self.model.state_dict())

    def turns(self) -> Sequence[Turn[SemiBatch]]:
        (turn,) = super().turns()
        assert isinstance(turn, Descend)

        def after() -> None:
            if turn.after is not None:
                turn.after()
            self.follow()

        return [replace(turn, after=after)]

    @torch.no_grad()
    def follow(self) -> None:
        """Move the teacher towards the student; buffers are copied."""
        self.steps += 1
        step = 1 - min(self.decay, 1 - 1 / int(self.steps))
        student = self.model.state_dict()
        moving = {name for name, _ in self.teacher.named_parameters()}
        for name, tensor in self.teacher.state_dict().items():
            if name in moving and step < 1:
                tensor.lerp_(student[name], step)  # eq. (1)
            else:
                tensor.copy_(student[name])

    def unlabeled_term(self, x: Tensor) -> tuple[str, Tensor]:
        shares = self.logits(self.perturb(x)).softmax(-1)
        with torch.no_grad():
            taught: Tensor = self.teacher(self.perturb(x)).softmax(-1)
        return "consistency", ramp_up(self, self.warmup) * (shares - taught).square().mean()  # eq. (2)

    def loss(self, batch: Labeled) -> Terms:
        """The student's loss in training; in eval mode that with the teacher's predictions, which are measured."""
        return self.around(self.model.loss if self.training else self.teacher.loss, batch)

    def metrics(self, batch: Any) -> Terms:
        return self.teacher.metrics(batch)

    def evaluated(self, batch: Any) -> Evaluated:
        _, metrics, mean = self.teacher.evaluated(batch)
        return Evaluated(self.loss(batch), metrics, mean)

    def unwrapped(self) -> Model[Any]:
        """A copy of the teacher."""
        return copy.deepcopy(self.teacher).requires_grad_(True)

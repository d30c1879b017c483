"""Multi-task learning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from deepcanon.core import Labeled, Model, Terms, Turn, UsageError, methods_of
from deepcanon.core.checks import at_least, flat
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods._layers import classes_of, weight_layers
from deepcanon.methods._method import Method, descents


class Multitask(Method[Labeled]):
    r"""A shared backbone trained on its own task and on auxiliary tasks, each with a linear head of its own.

    Also known as: hard parameter sharing, auxiliary-task learning, joint training.

    .. math:: \ell(f(x), y) + w_r \ell_r + w_g \ell_g, \qquad
              \ell_r = \frac1D \lVert V \phi(x) + c - x \rVert^2 \qquad (1)

    .. math:: \ell_g = -\log \operatorname{softmax}(U \phi(x) + d)_{g(y)} \qquad (2)

    The backbone :math:`\phi` is all that lies below the model's last layer, and all tasks share it. One auxiliary task
    is to reconstruct the input from the hidden representation; the other, where classes fall into groups, to predict
    the group :math:`g(y)`. Predictions are those of the model's own task.

    References:
        | Multitask Learning (Caruana, 1997), https://doi.org/10.1023/A:1007379606734

    Arguments:
        model: The classifier or regression, whose last layer is linear.
        features: The number :math:`D` of features of an example.
        reconstruction: The weight :math:`w_r` of reconstructing the input; at 0 there is no such task.
        groups: The group of each class, numbered from 0, in the order of the classes; without any there is no
            such task.
        grouping: The weight :math:`w_g` of predicting the group.
    """

    null: ClassVar[Mapping[str, Any]] = {"reconstruction": 0.0, "groups": ()}

    group_of: Tensor

    def __init__(
        self,
        model: Model[Any],
        features: int,
        reconstruction: float = 0.5,
        groups: tuple[int, ...] = (),
        grouping: float = 1.0,
    ) -> None:
        super().__init__(model)
        at_least(1, features=features)
        for name, weight in (("reconstruction", reconstruction), ("grouping", grouping)):
            if weight < 0:
                raise UsageError(f"{name} must be 0 or more (got {weight:g})")
        if "predict" not in methods_of(model):
            raise UsageError(f"multitask wraps a model with predict; {model.name()} has no predict")
        *_, head = weight_layers(model).values() or (None,)
        if not isinstance(head, nn.Linear):
            raise UsageError(f"multitask shares what lies below a last layer, a linear one; {model.name()} has none")
        if groups and (len(groups) != classes_of(model) or min(groups) < 0 or len(set(groups)) < 2):
            raise UsageError(
                f"groups takes the group of each of {classes_of(model) or 'no'} classes, of at least two groups "
                f"(got {', '.join(map(str, groups))})"
            )
        self.features = features
        self.weights = {"reconstruction": reconstruction, "grouping": grouping if groups else 0.0}
        outputs = {"reconstruction": features, "grouping": max(groups, default=0) + 1}
        tasks = [task for task, weight in self.weights.items() if weight > 0]
        like: dict[str, Any] = {"device": head.weight.device, "dtype": head.weight.dtype}
        self.heads = nn.ModuleDict({task: nn.Linear(head.in_features, outputs[task], **like) for task in tasks})
        self.register_buffer("group_of", torch.tensor(groups, dtype=torch.long), persistent=False)
        self._captured: list[Tensor] | None = None
        head.register_forward_pre_hook(self._capture)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        model, batch = ToyClassifier.example()
        return cls(model, features=2, groups=(0, 1)), batch

    def turns(self) -> Sequence[Turn[Labeled]]:
        """The wrapped model's turns, which now train the auxiliary heads, too."""
        return [
            replace(
                turn,
                loss=partial(self.around, turn.loss),
                parameters=(*turn.parameters, *self.heads.parameters()),
            )
            for turn in descents(self.model, self.name())
        ]

    def around(self, loss: Callable[[Labeled], Terms], batch: Labeled) -> Terms:
        """The model's own loss and the weighted ones of the auxiliary tasks, from one forward pass of the backbone."""
        if not self.heads:
            return loss(batch)
        self._captured = []
        try:
            terms = dict(loss(batch))
            hidden, *_ = self._captured  # (B, width), of the first forward pass
        finally:
            self._captured = None
        if "reconstruction" in self.heads:
            gap = self.heads["reconstruction"](hidden) - flat(batch.x, self.features)
            terms["reconstruction"] = self.weights["reconstruction"] * gap.square().mean()  # eq. (1)
        if "grouping" in self.heads:
            nll = cross_entropy(self.heads["grouping"](hidden), self.group_of[batch.y])  # eq. (2)
            terms["grouping"] = self.weights["grouping"] * nll
        return terms

    def _capture(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if self._captured is not None:
            self._captured.append(inputs[0])

"""The backbone of a model, all but its last layer, and the engine of methods that train it without labels."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Evaluated, Labeled, Model, SemiBatch, Terms, Turn, UsageError, methods_of
from deepcanon.core.turn import B
from deepcanon.methods._layers import weight_layers
from deepcanon.methods._method import Method, descents


class Backbone:
    """The features of a model: what it gives to its last layer, a linear one.

    >>> from deepcanon.core.toy_classifier import ToyClassifier
    >>> Backbone(ToyClassifier(features=2, classes=3), "simclr")(torch.zeros(5, 2)).shape
    torch.Size([5, 8])
    """

    def __init__(self, model: Model[Any], method: str) -> None:
        name, head = list(weight_layers(model).items())[-1] if weight_layers(model) else ("", None)
        if not isinstance(head, nn.Linear):
            raise UsageError(f"{method} trains what lies below a last layer, a linear one; {model.name()} has none")
        self.model, self.head_name, self.width = model, name, head.in_features
        self.like: dict[str, Any] = {"device": head.weight.device, "dtype": head.weight.dtype}
        self._captured: list[Tensor] | None = None
        head.register_forward_pre_hook(self._capture)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters below the last layer."""
        head = {id(parameter) for parameter in self.model.get_submodule(self.head_name).parameters()}
        return [parameter for parameter in self.model.parameters() if id(parameter) not in head]

    def __call__(self, *inputs: Tensor) -> Tensor:
        """The features, (B, width)."""
        self._captured = []
        try:
            self.model(*inputs)
            (features,) = self._captured
        finally:
            self._captured = None
        return features.flatten(1)

    def _capture(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if self._captured is not None:
            self._captured.append(inputs[0])


def examples_of(batch: Batch) -> Tensor:
    """The examples of a batch without their labels: where only few have one, those that have none."""
    return batch.unlabeled if isinstance(batch, SemiBatch) else batch.x


class FeatureLearning(Method[B]):
    """Feature learning: the backbone of a model is trained by a task of its own.

    The wrapped model's own loss may be added. Without it the model's last layer stays untrained,
    and in place of ``predict`` there is ``encode``, the features of examples; ``unwrapped`` is the model, which
    transfer learning gives a new last layer.
    """

    compared: ClassVar[Literal["", "linear probe", "one-shot", "fine-tuning"]] = "linear probe"

    def __init__(self, model: Model[Any], weight: float, supervised: float) -> None:
        super().__init__(model)
        if min(weight, supervised) < 0 or weight == supervised == 0:
            raise UsageError(f"weights are 0 or more, and not both 0 (got {weight=:g}, {supervised=:g})")
        if "predict" not in methods_of(model):
            raise UsageError(f"{self.name()} wraps a model with predict; {model.name()} has no predict")
        self.weight, self.supervised = weight, supervised
        self.backbone = Backbone(model, self.name())
        if supervised == 0:
            del self.__dict__["predict"]
            self.__dict__.update(encode=self._encode, surrogate=True)
            model.get_submodule(self.backbone.head_name).requires_grad_(False)

    @abstractmethod
    def pretext(self, batch: B) -> tuple[str, Tensor]:
        """The name of the task's loss and the loss, before it is weighted."""

    def perturbed(self, x: Tensor) -> Tensor:
        """The examples as the task perturbs them; here they stay as they are."""
        return x

    @property
    def own_parameters(self) -> list[nn.Parameter]:
        """The parameters of the task."""
        inside = {id(parameter) for parameter in self.model.parameters()}
        return [parameter for parameter in self.parameters() if id(parameter) not in inside]

    @torch.no_grad()
    def _encode(self, x: Tensor) -> Tensor:
        return self.backbone(x)

    def turns(self) -> Sequence[Turn[B]]:
        """The wrapped model's turns, with the task's loss and parameters."""
        return [
            replace(
                turn,
                loss=partial(self.around, turn.loss),
                parameters=(*(p for p in turn.parameters if p.requires_grad), *self.own_parameters),
            )
            for turn in descents(self.model, self.name())
        ]

    def around(self, loss: Callable[[B], Terms], batch: B) -> Terms:
        terms: Terms = {}
        if self.supervised > 0:
            if not isinstance(batch, Labeled):
                raise UsageError(f"supervised={self.supervised:g} is the weight of a loss of labels; there are none")
            terms = {name: self.supervised * term for name, term in loss(batch).items()}
        if self.weight > 0:
            name, value = self.pretext(batch)
            terms[name] = self.weight * value
        return terms

    def unwrapped(self) -> Model[Any]:
        """A copy of the wrapped model, with all of it to be trained."""
        return copy.deepcopy(self.model).requires_grad_(True)

    def metrics(self, batch: B) -> Terms:
        return super().metrics(batch) if self.supervised > 0 else self.own_metrics(batch)

    def evaluated(self, batch: B) -> Evaluated:
        return super().evaluated(batch) if self.supervised > 0 else Evaluated(self.loss(batch), self.metrics(batch))

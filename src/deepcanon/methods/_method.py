"""The base class of methods: a model that wraps another, trains it in its own way and predicts as it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from torch import Tensor

from deepcanon.core import AnyBatch, Descend, LikelihoodKind, Model, Support, Terms, UsageError, methods_of
from deepcanon.core.turn import B


class Method(Model[B]):
    """A model that wraps a model, with those of predict, sample, log_prob ... that the wrapped one or itself has.

    Recipe, batch type, support, likelihood kind and metrics are the wrapped model's, too, unless it defines its own.
    """

    null: ClassVar[Mapping[str, Any]]
    """Constructor arguments with which it is the model that it wraps, bit for bit."""

    def __init__(self, model: Model[Any]) -> None:
        super().__init__()
        self.model = model
        own = type(self)
        passed = [name for name in (*methods_of(model), "gallery") if hasattr(model, name) and not hasattr(own, name)]
        if own.recipe is Model.recipe:
            passed.append("recipe")
        if own.batch_type() is AnyBatch:
            passed.append("batch_type")
        if model.forward.__name__ == "_forward_unimplemented":
            passed.append("forward")  # so that a test for a forward map finds what it finds in the wrapped model
        # Into the instance, not by __getattr__: protocols look methods up without it.
        self.__dict__.update({name: getattr(model, name) for name in (*passed, "surrogate")})

    def forward(self, *inputs: Tensor) -> Any:
        return self.model(*inputs)

    def prepare(self, data: Iterable[B]) -> None:
        self.model.prepare(data)

    def weight_of(self, batch: B) -> float:
        return self.model.weight_of(batch)

    def metrics(self, batch: B) -> Terms:
        return self.model.metrics(batch)

    @property
    def support(self) -> Support:
        return self.model.support

    @property
    def likelihood_kind(self) -> LikelihoodKind:
        found: LikelihoodKind = self.model.likelihood_kind  # type: ignore[assignment]
        return found

    def unwrapped(self) -> Model[Any]:
        """The wrapped model alone, which predicts as the method does."""
        return self.model


def descents(model: Model[Any], method: str) -> list[Descend[Any]]:
    """The turns of a model for a method that changes their losses: all of them must descend by backpropagation."""
    turns = model.turns()
    found = [turn for turn in turns if isinstance(turn, Descend) and turn.gradient is None]
    if len(found) != len(turns):
        raise UsageError(f"{method} wraps a model that learns by backpropagation; {model.name()} does otherwise")
    return found

"""The base class of methods: a model that wraps another, trains it in its own way and predicts as it does."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, Self

from torch import Tensor

from deepcanon.core import (
    AnyBatch,
    Context,
    Descend,
    Evaluated,
    LikelihoodKind,
    Model,
    Support,
    Terms,
    UsageError,
    bound,
    methods_of,
)
from deepcanon.core.turn import B

PASSED_ON = (
    "gallery", "sequences_of", "error_of_draws", "measured_samples", "least_draws", "in_random_order",
    "importance_weighted",
)  # fmt: skip
"""What a method has of the wrapped model besides its methods."""


class Method(Model[B]):
    """A model that wraps a model, with those of predict, sample, log_prob ... that the wrapped one or itself has.

    Recipe, batch type, support, likelihood kind and metrics are the wrapped model's, too, unless it defines its own. A
    method is conditional if the wrapped model is: ``given(context)`` is the method around the model so conditioned.
    """

    default_model: ClassVar[str] = "mlp"
    """The name of the model that it wraps where none is given."""
    wraps_trained: ClassVar[bool] = False
    """Whether it is meant for a model that is trained already."""
    null: ClassVar[Mapping[str, Any]]
    """Constructor arguments with which it is the model that it wraps, bit for bit."""
    null_name: ClassVar[str] = ""
    """What the wrapped classifier alone is called; where it has a name, a run trains it, too, to compare."""
    compared: ClassVar[Literal["", "linear probe", "one-shot", "fine-tuning"]] = ""
    """By what else than its labels a run of it is compared with the same network without it."""

    def __init__(self, model: Model[Any]) -> None:
        super().__init__()
        self._wrap(model)

    def _wrap(self, model: Model[Any]) -> None:
        self.model = model
        own = type(self)
        passed = [name for name in (*methods_of(model), *PASSED_ON) if hasattr(model, name) and not hasattr(own, name)]
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

    def around(self, loss: Callable[[B], Terms], batch: B) -> Terms:
        """A loss of the wrapped model on a batch, as the method changes it; here it stays as it is."""
        return loss(batch)

    def loss(self, batch: B) -> Terms:
        return self.around(self.model.loss, batch)

    def metrics(self, batch: B) -> Terms:
        return {**self.model.metrics(batch), **self.own_metrics(batch)}

    def own_metrics(self, batch: B) -> Terms:
        """The metrics that the method has besides the wrapped model's."""
        return {}

    def evaluated(self, batch: B) -> Evaluated:
        """What the wrapped model measures in one forward pass, with what the method changes and adds."""
        found: list[Evaluated] = []

        def loss(part: B) -> Terms:
            of_part = self.model.evaluated(part)
            if part is batch:
                found.append(of_part)
            return of_part.terms

        terms = self.around(loss, batch)
        metrics, mean = (found[0].metrics, found[0].mean) if found else (self.model.metrics(batch), None)
        return Evaluated(terms, {**metrics, **self.own_metrics(batch)}, mean)

    @property
    def support(self) -> Support:
        return self.model.support

    @property
    def likelihood_kind(self) -> LikelihoodKind:
        found: LikelihoodKind = self.model.likelihood_kind  # type: ignore[assignment]
        return found

    @property
    def per_example(self) -> frozenset[str]:
        return self.model.per_example

    @property
    def causal(self) -> bool:
        return self.model.causal

    @property
    def conditioned_on(self) -> str | None:
        """What the wrapped model is conditioned on, None where it is not conditional."""
        return getattr(self.model, "conditioned_on", None)

    @property
    def context_optional(self) -> bool:
        return getattr(self.model, "context_optional", False)

    @property
    def given_options(self) -> tuple[str, ...]:
        return getattr(self.model, "given_options", ())

    @property
    def context(self) -> Context | None:
        """The context that the wrapped model is bound to, if any."""
        return getattr(self.model, "context", None)

    @property
    def binding(self) -> Mapping[str, Any]:
        return getattr(self.model, "binding", {})

    def context_of(self, batch: B) -> Context:
        """The context of the examples of a batch."""
        context: Context = self.model.context_of(batch)  # type: ignore[operator]
        return context

    def given(self, context: Context | int, **options: Any) -> Self:
        """The same method with the same weights around the wrapped model conditioned on this context."""
        view = copy.copy(self)
        view.__dict__["_modules"] = dict(self._modules)  # a copy of a module shares it
        view._wrap(bound(self.model, context, None, **options))
        return view

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

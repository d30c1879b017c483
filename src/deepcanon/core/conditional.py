"""Conditional models: what a model is conditioned on, given with a call or bound once by ``given``."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from itertools import chain
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from deepcanon.core.checks import only_classes
from deepcanon.core.errors import DataError, UsageError

Context = Tensor | tuple[Tensor, ...]
"""What a model is conditioned on: labels, an image, covariates, tokens with their lengths, or a tuple of these."""


class Conditional(ABC):
    """A conditional model, p(x | context): methods take ``context=``, or ``given(context)`` binds it to all of them.

    A leaf names its context in ``conditioned_on``, says by ``context_of`` which part of a batch it is, checks it in
    ``_check_context``, and reads it by ``_context(n)``. Without a context it refuses to work, unless
    ``context_optional`` says that it then has a meaning, which its documentation gives.
    """

    conditioned_on: ClassVar[str]
    """The context in words, for messages: ``labels``, ``an image`` ..."""
    context_optional: ClassVar[bool] = False
    """Whether the model means something without a context, p(x) for instance."""
    context: Context | None = None
    """The context that is bound to this view of the model, None where there is none."""

    @abstractmethod
    def context_of(self, batch: Any) -> Context:
        """The context of the examples of a batch."""

    @abstractmethod
    def _check_context(self, context: Context) -> None:
        """Refuse what is not a context of this model."""

    def given(self, context: Context | int) -> Self:
        """The same model, with the same weights, conditioned on this context in all its methods.

        The context has a row for each example, or one row for all of them; with n rows, every n examples go through
        them again.
        """
        if isinstance(context, int):
            context = torch.tensor([context])
        self._check_context(context)
        like = next(chain(self.parameters(), self.buffers()), None)  # type: ignore[attr-defined]
        if like is None:
            return self._view(context)
        parts = tuple(part.to(like.device) for part in ((context,) if isinstance(context, Tensor) else context))
        return self._view(parts[0] if isinstance(context, Tensor) else parts)

    def _view(self, context: Context | None) -> Self:
        view = copy.copy(self)
        view.context = context
        return view

    def _context(self, n: int) -> Context:
        """The bound context of each of n examples."""
        if self.context is None:
            raise UsageError(
                f"{_name(self)} is conditional: give {self.conditioned_on} as context=..., or bind it by given(...)"
            )
        if isinstance(self.context, Tensor):
            return _rows(self.context, n)
        return tuple(_rows(part, n) for part in self.context)


class ClassConditional(Conditional):
    """A model conditioned on classes, the labels of the examples."""

    conditioned_on = "classes"
    classes: int

    def context_of(self, batch: Any) -> Context:
        labels: Tensor = batch.y
        return labels

    def _check_context(self, context: Context) -> None:
        if not isinstance(context, Tensor):
            raise UsageError(f"{_name(self)} is conditioned on classes, (B,), not on {len(context)} things")
        only_classes(context, self.classes)


def bound(model: Any, context: Context | int | None, n: int) -> Any:
    """The model as a call for n examples asks for it: conditioned on this context, if any.

    A model that is not conditional refuses a context.
    """
    if context is None:
        if isinstance(model, Conditional) and not model.context_optional:
            model._context(0)
        return model
    if isinstance(model, Conditional):
        view = model.given(context)
        rows = 1 if isinstance(context, int) else len(context if isinstance(context, Tensor) else context[0])
        if rows not in (1, n):
            raise DataError(f"a context has one row for each example, or one for all: got {rows} rows for {n} examples")
        return view
    raise UsageError(f"{_name(model)} is not a conditional model and takes no context; leave it out")


def given_batch(model: Any, batch: Any) -> Any:
    """The model as it stands to the examples of a batch: a conditional one is conditioned on their context."""
    context_of, given = getattr(model, "context_of", None), getattr(model, "given", None)
    return model if context_of is None or given is None else given(context_of(batch))


def conditioned(model: Any, batch: Any, n: int | None = None) -> Any:
    """The model conditioned on the context of a batch if it means nothing without one, else the model as it is.

    With ``n`` it is the model of so many examples, whose contexts are those of the batch, gone through again and again.
    """
    if not isinstance(model, Conditional) or model.context_optional:
        return model
    if n is not None:
        batch = batch.select(torch.arange(n, device=batch.device) % len(batch))
    return given_batch(model, batch)


def _rows(context: Tensor, n: int) -> Tensor:
    rows = context.shape[0]  # len would freeze the number of rows into an exported graph
    if rows == n or n == 0:
        return context[:n]
    if rows == 0 or n % rows:
        raise DataError(f"a context has one row for each example, or one for all: got {rows} rows for {n} examples")
    return context.repeat(n // rows, *[1] * (context.ndim - 1))


def _name(model: Any) -> str:
    return str(model.name()) if hasattr(model, "name") else type(model).__name__

"""Conditional models: what a model is conditioned on, given with a call or bound once by ``given``."""

from __future__ import annotations

import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import chain
from numbers import Integral
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from deepcanon.core.checks import only_classes
from deepcanon.core.errors import DataError, UsageError
from deepcanon.core.roles import METHODS

Context = Tensor | tuple[Tensor, ...]
"""What a model is conditioned on: labels, an image, tokens with their lengths, or a tuple of these."""

IN_CONTEXT = tuple(method for method in METHODS if method != "translate")
"""The methods of a conditional model that take ``context=``: all but ``translate``, whose input is the context."""


class Conditional(ABC):
    """A conditional model, p(x | context): methods take ``context=``, or ``given(context)`` binds it to all of them.

    A leaf names its context in ``conditioned_on``, says by ``context_of`` which part of a batch it is, checks it in
    ``_check_context``, and reads it by ``_context(n)``. Its methods need not take ``context`` themselves: those that
    do not are given it here, and called as methods of ``given(context)``. Without a context it refuses to work, unless
    ``context_optional`` says that it then has a meaning, which its documentation gives.
    """

    conditioned_on: ClassVar[str]
    """The context in words, for messages: ``classes``, ``an image`` ..."""
    context_optional: ClassVar[bool] = False
    """Whether the model means something without a context, p(x) for instance."""
    given_options: ClassVar[tuple[str, ...]] = ()
    """The further arguments of ``given`` by name, which a view has as attributes."""
    context: Context | None = None
    """The context that is bound to this view of the model, None where there is none."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in IN_CONTEXT:
            method = getattr(cls, name, None)
            if callable(method) and "context" not in inspect.signature(method).parameters:
                setattr(cls, name, _in_context(name, method))

    @property
    def binding(self) -> Mapping[str, Any]:
        """The arguments of ``given`` that this view is bound by, none of them for the model itself."""
        names = () if self.context is None else ("context", *self.given_options)
        return {name: getattr(self, name) for name in names}

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
        context = _as_context(context, self)
        self._check_context(context)
        like = next(chain(self.parameters(), self.buffers()), None)  # type: ignore[attr-defined]
        return self._view(context if like is None else _mapped(lambda part: part.to(like.device), context))

    def _view(self, context: Context | None) -> Self:
        view = copy.copy(self)
        view.context = context
        return view

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What moves or converts a module does so with the context that is bound to it."""
        super()._apply(fn, recurse)  # type: ignore[misc]
        if self.context is not None:
            self.context = _mapped(fn, self.context)
        return self

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


def is_conditional(model: Any) -> bool:
    """Whether a model is conditional; a method that wraps a model is where that one is."""
    return getattr(model, "conditioned_on", None) is not None


def bound(model: Any, context: Context | int | None, n: int | None, **options: Any) -> Any:
    """The model as a call for n examples asks for it: conditioned on this context, if any, by these options.

    A model that is not conditional refuses a context. Without ``n`` any number of rows will do.
    """
    if context is None:
        if isinstance(model, Conditional) and not model.context_optional:
            model._context(0)
        return model
    if not is_conditional(model):
        raise UsageError(f"{_name(model)} is not a conditional model and takes no context; leave it out")
    view = model.given(context, **options)
    rows = len(view.context if isinstance(view.context, Tensor) else view.context[0])
    if n is not None and rows not in (1, n):
        raise DataError(f"a context has one row for each example, or one for all: got {rows} rows for {n} examples")
    return view


def given_batch(model: Any, batch: Any) -> Any:
    """The model as it stands to the examples of a batch: a conditional one is conditioned on their context.

    A view that is bound already stays as it is: a plain model, whatever the batch.
    """
    return model.given(model.context_of(batch)) if is_conditional(model) and model.context is None else model


def given_rows(model: Any, batch: Any, rows: Tensor) -> Any:
    """The model as it stands to these examples of a batch, of which a bound view may have a row of context each."""
    if not isinstance(model, Conditional) or model.context is None:
        return given_batch(model, batch.select(rows))
    return model._view(_mapped(lambda part: part[rows], model._context(len(batch))))


def conditioned(model: Any, batch: Any, n: int | None = None) -> Any:
    """The model conditioned on the context of a batch if it means nothing without one, else the model as it is.

    With ``n`` it is the model of so many examples, whose contexts are those of the batch, gone through again and again.
    """
    if not is_conditional(model) or model.context_optional:
        return model
    if n is not None:
        batch = batch.select(torch.arange(n, device=batch.device) % len(batch))
    return given_batch(model, batch)


def _in_context(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with a further keyword ``context``, by which it is that of ``given(context)``."""
    signature = inspect.signature(method)
    keyword = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Context | None)
    own = list(signature.parameters.values())
    last = len(own) - (own[-1].kind is inspect.Parameter.VAR_KEYWORD)

    @functools.wraps(method)
    def called(self: Conditional, *args: Any, context: Context | int | None = None, **kwargs: Any) -> Any:
        if context is None:
            return method(bound(self, None, None), *args, **kwargs)
        first = args[0] if args else next(iter(kwargs.values()), ())
        # latents that are decoded may have any leading shape
        n = None if name == "decode" else first if isinstance(first, int) else len(first)
        return method(bound(self, context, n), *args, **kwargs)

    called.__signature__ = signature.replace(parameters=[*own[:last], keyword, *own[last:]])  # type: ignore[attr-defined]
    return called


def _as_context(context: Any, model: Any) -> Context:
    """A context as tensors; one class may be given as a whole number."""
    if isinstance(context, int | Integral) and context is not True and context is not False:
        return torch.tensor([int(context)])
    parts = context if isinstance(context, tuple) else (context,)
    if not parts or not all(isinstance(part, Tensor) for part in parts):
        got = repr(context) if isinstance(context, bool | float | str | None) else type(context).__name__
        raise UsageError(
            f"{_name(model)} is conditioned on {model.conditioned_on}: a context is a tensor, a tuple of tensors, or a "
            f"whole number for one class; got {got}"
        )
    return context  # type: ignore[no-any-return]


def _mapped(change: Callable[[Tensor], Tensor], context: Context) -> Context:
    return change(context) if isinstance(context, Tensor) else tuple(change(part) for part in context)


def _rows(context: Tensor, n: int) -> Tensor:
    rows = context.shape[0]  # len would freeze the number of rows into an exported graph
    if rows == n or n == 0:
        return context[:n]
    if rows == 0 or n % rows:
        raise DataError(f"a context has one row for each example, or one for all: got {rows} rows for {n} examples")
    return context.repeat(n // rows, *[1] * (context.ndim - 1))


def _name(model: Any) -> str:
    return str(model.name()) if hasattr(model, "name") else type(model).__name__

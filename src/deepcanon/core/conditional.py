"""Conditional models: the same weights, with what they are conditioned on bound to them."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self

from torch import Tensor

from deepcanon.core.errors import UsageError

Context = Tensor | tuple[Tensor, ...]
"""What a conditional model is conditioned on: one row serves all examples, or there is one for each."""


class Conditional:
    """A model that is conditioned on a context; ``given`` gives the same model with the context bound to it."""

    context: Context | None = None

    @abstractmethod
    def context_of(self, batch: Any) -> Context:
        """The part of a batch that the model is conditioned on."""

    @abstractmethod
    def _check_context(self, context: Context) -> None:
        """Refuse what is not a context of this model."""

    def given(self, context: Context) -> Self:
        """The same model, with the same weights, conditioned on this context."""
        self._check_context(context)
        view = copy.copy(self)
        view.__dict__["context"] = context
        return view

    def bound_context(self) -> Context:
        """The context that is bound."""
        if self.context is None:
            raise UsageError(f"{type(self).__name__} is conditioned on a context: give it by context=")
        return self.context

"""Conditional models as plain ones: what they are conditioned on is fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from torch import Tensor, nn

from deepcanon.core import AnyBatch, is_conditional
from deepcanon.laws.probe import first


def rebound(model: Any, like: Any) -> Any:
    """The model, bound to the context that another one is bound to, if it is."""
    return model.given(**like.binding) if is_conditional(like) and like.binding else model


class Given(nn.Module):
    """The distribution of target sequences given the context of the first example of a batch."""

    def __init__(self, model: Any, batch: AnyBatch) -> None:
        super().__init__()
        self.model, self.context = model, model.context_of(first(batch, 1))
        self.causal, self.end_token = model.causal, model.end_token

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What converts a module, as to double precision, does so with what it is conditioned on."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.context = fn(self.context) if isinstance(self.context, Tensor) else tuple(map(fn, self.context))
        return self

    def forward(self, y: Tensor, lengths: Tensor | None = None) -> Tensor:
        logits: Tensor = self.model.given(self.context).target_logits(y, lengths)
        return logits

    def log_prob(self, y: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        found: Tensor = self.model.log_prob(y, lengths=lengths, context=self.context)
        return found

    def step_log_probs(self, y: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        found: Tensor = self.model.step_log_probs(y, lengths=lengths, context=self.context)
        return found

    def generate(self, prompt: Tensor, steps: int, **options: Any) -> Tensor:
        made: Tensor = self.model.generate(prompt, steps, context=self.context, **options)
        return made

    def beam_search(self, prompt: Tensor, steps: int, **options: Any) -> Any:
        return self.model.beam_search(prompt, steps, context=self.context, **options)

    def exact_search(self, prompt: Tensor, steps: int, **options: Any) -> Any:
        return self.model.exact_search(prompt, steps, context=self.context, **options)

"""Beam search: the most probable continuations of a prompt under any next-token model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from deepcanon.core.checks import at_least
from deepcanon.core.precision import full
from deepcanon.decoding.generation import check_prompt


class DecodingState(Protocol):
    """The state of a next-token model after what it has read, one row for each sequence; ``select`` gives some."""

    def select(self, rows: Tensor) -> Self: ...


S = TypeVar("S", bound=DecodingState)


@dataclass(frozen=True)
class Beams:
    """The sequences that a beam search has found for each of B prompts, the most probable first.

    ``tokens`` (B, beams, T) begin with the prompt; of each the first ``lengths`` (B, beams) count, the stop token
    included. ``log_prob`` (B, beams) is the log-probability of what follows the prompt; where there are fewer sequences
    than beams, it is minus infinity.
    """

    tokens: Tensor
    lengths: Tensor
    log_prob: Tensor

    def best(self) -> tuple[Tensor, Tensor]:
        """The most probable sequence of each prompt, (B, T), and its length, (B,)."""
        return self.tokens[:, 0], self.lengths[:, 0]


def beam_search(
    step: Callable[[Tensor, S | None], tuple[Tensor, S]],
    prompt: Tensor,
    steps: int,
    beams: int,
    *,
    stop: int | None = None,
) -> Beams:
    """The ``beams`` most probable sequences of up to ``steps`` tokens after the prompt that a beam search finds.

    After each token the most probable sequences so far are kept. One that has come to the token ``stop`` is complete
    and stays among them as long as its probability does. With as many beams as there are sequences the search is
    exact. ``step`` is that of :func:`~deepcanon.decoding.generation.generate`, called with the state None first.

    References:
        | Sequence to Sequence Learning with Neural Networks (Sutskever et al., 2014), https://arxiv.org/abs/1409.3215
    """
    check_prompt(prompt, steps)
    at_least(1, beams=beams)
    rows, given = prompt.shape
    tokens = prompt.unsqueeze(1)  # (B, K, t), where K grows from 1 to the number of beams
    state: S | None = None
    unread = prompt
    with torch.inference_mode():
        score = torch.zeros(rows, 1, device=prompt.device)
        complete = torch.zeros(rows, 1, dtype=torch.bool, device=prompt.device)
        for _ in range(steps):
            logits, state = step(unread, state)
            log_p = full(logits[:, -1]).log_softmax(-1).view(rows, -1, logits.shape[-1])  # (B, K, vocab)
            if stop is not None:  # a complete sequence goes on in one way, with the probability 1
                log_p = log_p.masked_fill(complete.unsqueeze(2), -torch.inf)
                log_p[..., stop] = log_p[..., stop].masked_fill(complete, 0)
            every = (score.unsqueeze(2) + log_p).flatten(1)  # (B, K * vocab)
            score, best = every.topk(min(beams, every.shape[1]))
            parent, token = best // log_p.shape[2], best % log_p.shape[2]
            first = torch.arange(rows, device=prompt.device).unsqueeze(1) * log_p.shape[1]
            state = state.select((first + parent).flatten())
            tokens = torch.cat([tokens.gather(1, parent.unsqueeze(2).expand(-1, -1, tokens.shape[2])),
                                token.unsqueeze(2)], 2)  # fmt: skip
            complete = complete.gather(1, parent) | (token == (-1 if stop is None else stop))
            if bool(complete.all()):
                break
            unread = token.flatten().unsqueeze(1)
    after = tokens[:, :, given:]
    open_ = torch.ones_like(after) if stop is None else (after != stop).long().cumprod(2)
    lengths = given + (open_.sum(2) + 1).clamp_max(after.shape[2])
    return Beams(tokens.clone(), lengths.clone(), score.clone())

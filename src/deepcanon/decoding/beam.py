"""Beam search: the most probable continuations of a prompt under any next-token model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.precision import full
from deepcanon.decoding.generation import check_prompt


class DecodingState(Protocol):
    """The state of a next-token model after what it has read, one row for each sequence; ``select`` gives some.

    It may also have ``reorder``, which gives the same and may change the state itself, so that less is copied.
    """

    def select(self, rows: Tensor) -> Self: ...


S = TypeVar("S", bound=DecodingState)


@dataclass(frozen=True)
class Beams:
    """The sequences that a search has found for each of B prompts, the best first.

    ``tokens`` (B, beams, T) begin with the prompt; of each the first ``lengths`` (B, beams) count, the stop token
    included. ``log_prob`` (B, beams) is the log-probability of what follows the prompt; where there are fewer sequences
    than beams, it is minus infinity.
    """

    tokens: Tensor
    lengths: Tensor
    log_prob: Tensor

    def best(self) -> tuple[Tensor, Tensor]:
        """The best sequence of each prompt, (B, T), and its length, (B,)."""
        return self.tokens[:, 0], self.lengths[:, 0]


def beam_search(
    step: Callable[[Tensor, S | None], tuple[Tensor, S]],
    prompt: Tensor,
    steps: int,
    beams: int,
    *,
    stop: int | None = None,
    length_penalty: float = 0.0,
) -> Beams:
    r"""The ``beams`` best sequences of up to ``steps`` tokens after the prompt that a beam search finds.

    .. math:: \mathrm{score}(y) = \frac{\log p(y)}{\mathrm{lp}(|y|)}, \qquad
              \mathrm{lp}(n) = \Big(\frac{5 + n}{6}\Big)^\alpha \qquad (1)

    After each token the sequences with the best scores so far are kept. One that has come to the token ``stop`` is
    complete and stays among them as long as its score does. With a ``length_penalty`` :math:`\alpha` of 0 the score is
    the log-probability, of which long sequences have less; the larger it is, the longer are those that are found. With
    one beam and no penalty this is greedy decoding; with as many beams as there are sequences the search is exact.
    ``step`` is that of :func:`~deepcanon.decoding.generation.generate`, called with the state None first.

    References:
        | Sequence to Sequence Learning with Neural Networks (Sutskever et al., 2014), https://arxiv.org/abs/1409.3215
        | Google's Neural Machine Translation System (Wu et al., 2016; length penalty),
          https://arxiv.org/abs/1609.08144
    """
    at_least(1, beams=beams)
    check_search(prompt, steps, stop, length_penalty)
    if beams == 1 and length_penalty:
        raise UsageError(
            f"one beam has no sequences of unequal length; leave out length_penalty (got {length_penalty})"
        )
    rows, given = prompt.shape
    tokens = prompt.unsqueeze(1)  # (B, K, t), where K grows from 1 to the number of beams
    state: S | None = None
    unread = prompt
    with torch.inference_mode():
        log_prob = torch.zeros(rows, 1, device=prompt.device)
        after = torch.zeros(rows, 1, dtype=torch.long, device=prompt.device)  # tokens after the prompt, stop included
        complete = torch.zeros(rows, 1, dtype=torch.bool, device=prompt.device)
        first = torch.arange(rows, device=prompt.device).unsqueeze(1)  # times the beams, the number of the first beam
        for _ in range(steps):
            logits, state = step(unread, state)
            every = log_prob.unsqueeze(2) + next_log_probs(logits, complete, stop)  # (B, K, vocab)
            longer = after + 1 if stop is None else after + ~complete
            scores = penalized(every, longer.unsqueeze(2), length_penalty).flatten(1)
            top, best = scores.topk(min(beams, scores.shape[1]))
            parent, token = best // every.shape[2], best % every.shape[2]
            log_prob = every.flatten(1).gather(1, best) if length_penalty else top
            after, complete = longer.gather(1, parent), complete.gather(1, parent)
            kept = (first * every.shape[1] + parent).flatten()
            tokens = torch.cat([tokens.flatten(0, 1).index_select(0, kept), token.view(-1, 1)], 1).view(
                *token.shape, -1
            )
            if stop is not None:
                complete |= token == stop
                if bool(complete.all()):
                    break
            state = getattr(state, "reorder", state.select)(kept)
            unread = token.view(-1, 1)
    return Beams(tokens.clone(), given + after, log_prob.clone())


def next_log_probs(logits: Tensor, complete: Tensor, stop: int | None) -> Tensor:
    """The log-probabilities of the next token of each sequence, (B, K, vocab), from the last of logits (B K, t, vocab).

    A sequence that is complete, (B, K), goes on in one way, by ``stop`` with the probability 1.
    """
    log_p = full(logits[:, -1]).log_softmax(-1).view(*complete.shape, logits.shape[-1])
    if stop is None:
        return log_p
    log_p = log_p.masked_fill(complete.unsqueeze(2), -torch.inf)
    log_p[..., stop] = log_p[..., stop].masked_fill(complete, 0)
    return log_p


def penalized(log_prob: Tensor, after: Tensor, length_penalty: float) -> Tensor:
    """The score by which sequences are ranked, from their log-probability and the number of their tokens.

    >>> penalized(torch.tensor([-2.0, -3.0]), torch.tensor([1, 7]), 1.0)
    tensor([-2.0000, -1.5000])
    """
    return log_prob if length_penalty == 0 else log_prob / ((5 + after) / 6) ** length_penalty  # eq. (1)


def check_search(prompt: Tensor, steps: int, stop: int | None, length_penalty: float) -> None:
    """Refuse a search that has no meaning."""
    check_prompt(prompt, steps)
    if not 0 <= length_penalty < float("inf"):
        raise UsageError(f"length_penalty is 0, none, or more (got {length_penalty})")
    if stop is None and length_penalty:
        raise UsageError(
            f"without a stop token all sequences are equally long; leave out length_penalty ({length_penalty})"
        )

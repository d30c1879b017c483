"""Exact search: the most probable continuations of a prompt, by branch and bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor
from torch.nn.functional import pad

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.decoding.beam import Beams, S, beam_search, check_search, next_log_probs, penalized

ROUNDING = 1e-5
"""By what share of it a score may be off, as the same sequence in another batch is."""

MOST = 20_000
"""The most prefixes of equal length that are followed at once."""


def exact_search(
    step: Callable[[Tensor, S | None], tuple[Tensor, S]],
    prompt: Tensor,
    steps: int,
    top: int = 1,
    *,
    stop: int | None = None,
    length_penalty: float = 0.0,
    most: int = MOST,
) -> Beams:
    r"""The ``top`` best of all sequences of up to ``steps`` tokens after the prompt: no better one is missed.

    No sequence is more probable than any of its prefixes, so that its score is at most :math:`\log p` of a prefix by
    the largest penalty :math:`\mathrm{lp}(\text{steps})` of :func:`~deepcanon.decoding.beam.beam_search`, whose
    other arguments these are. That search comes first. Then all prefixes are followed, token by token, whose bound is
    no worse than the last of the best sequences known so far: few where the model is certain. Where there are more than
    ``most`` of them, the search gives up.

    References:
        | On NMT Search Errors and Model Errors: Cat Got Your Tongue? (Stahlberg and Byrne, 2019),
          https://arxiv.org/abs/1908.10090
    """
    at_least(1, top=top, most=most)
    check_search(prompt, steps, stop, length_penalty)
    known = beam_search(step, prompt, steps, max(2, top), stop=stop, length_penalty=length_penalty)
    if not steps:
        return known
    with torch.inference_mode():
        logits, state = step(prompt, None)
        found = []
        for row, floor in enumerate(_floors(known, prompt.shape[1], top, length_penalty).tolist()):
            one = torch.tensor([row], device=prompt.device)
            search = _Search(step, steps, top, stop, length_penalty, most, floor)
            found.append(search.best(prompt[one], logits[one], state.select(one)))
    end = prompt.shape[1] + max(int(part.after.max()) for part in found)
    width = max(len(part.after) for part in found)
    whole = [part.filled(width) for part in found]
    return Beams(
        torch.stack([part.tokens[:, :end] for part in whole]),
        prompt.shape[1] + torch.stack([part.after for part in whole]),
        torch.stack([part.log_prob for part in whole]),
    )


def _floors(known: Beams, given: int, top: int, length_penalty: float) -> Tensor:
    """The score of the last of the ``top`` known sequences of each prompt, less what rounding may move it by."""
    scores = penalized(known.log_prob, known.lengths - given, length_penalty)
    if scores.shape[1] < top:
        return torch.full((len(scores),), -torch.inf)
    floor = scores[:, top - 1]
    return floor - ROUNDING * (1 + floor.abs())


@dataclass
class _Complete:
    """Sequences that are complete: tokens (n, T), filled with anything, how many count after the prompt, and log p."""

    tokens: Tensor
    after: Tensor
    log_prob: Tensor

    def best(self, scores: Tensor, top: int) -> _Complete:
        chosen = scores.topk(min(top, len(scores))).indices
        return _Complete(self.tokens[chosen], self.after[chosen], self.log_prob[chosen])

    def joined(self, other: _Complete) -> _Complete:
        return _Complete(*(torch.cat([getattr(self, name), getattr(other, name)]) for name in vars(self)))

    def filled(self, width: int) -> _Complete:
        """As many rows as that, of which those that are not there have the probability 0."""
        more = width - len(self.after)
        return _Complete(
            pad(self.tokens, (0, 0, 0, more)),
            pad(self.after, (0, more)),
            pad(self.log_prob, (0, more), value=-torch.inf),
        )


@dataclass
class _Search(Generic[S]):
    """The search of one prompt."""

    step: Callable[[Tensor, S | None], tuple[Tensor, S]]
    steps: int
    top: int
    stop: int | None
    length_penalty: float
    most: int
    floor: float

    def best(self, tokens: Tensor, logits: Tensor, state: S) -> _Complete:
        """The best sequences after a prompt (1, t) with these logits and this state after it."""
        complete = _Complete(
            tokens.new_zeros(0, tokens.shape[1] + self.steps), tokens.new_zeros(0), logits.new_zeros(0)
        )
        log_prob = torch.zeros(1, device=tokens.device)
        for after in range(1, self.steps + 1):
            unstopped = torch.zeros(len(tokens), 1, dtype=torch.bool, device=tokens.device)
            every = log_prob.unsqueeze(1) + next_log_probs(logits, unstopped, None).squeeze(1)  # (n, vocab)
            ends = torch.zeros_like(every, dtype=torch.bool)
            if self.stop is not None:
                ends[:, self.stop] = True
            if after == self.steps:
                ends[:] = True
            complete = self._kept(complete, tokens, every.masked_fill(~ends, -torch.inf), after)
            bounds = penalized(every, torch.tensor(self.steps), self.length_penalty)
            parents, following = (~ends & (bounds >= self.floor) & (every > -torch.inf)).nonzero().unbind(1)
            if not len(parents):
                break
            if len(parents) > self.most:
                raise UsageError(
                    f"an exact search would follow {len(parents):,} beginnings of {after} tokens, more than "
                    f"{self.most:,}; ask for fewer tokens or sequences, or search by beams"
                )
            log_prob = every[parents, following]
            tokens = torch.cat([tokens[parents], following.unsqueeze(1)], 1)
            logits, state = self.step(following.unsqueeze(1), state.select(parents))
        return complete

    def _kept(self, complete: _Complete, tokens: Tensor, every: Tensor, after: int) -> _Complete:
        """The best sequences so far, where those that end with one of these tokens are new; the floor rises."""
        log_prob, which = every.flatten().topk(min(self.top, every.numel()))
        parents, last = which // every.shape[1], which % every.shape[1]
        rows = torch.cat([tokens[parents], last.unsqueeze(1)], 1)
        rows = pad(rows, (0, complete.tokens.shape[1] - rows.shape[1]), value=self.stop or 0)
        there = log_prob > -torch.inf
        new = _Complete(rows[there], torch.full_like(last, after)[there], log_prob[there])
        complete = complete.joined(new)
        scores = penalized(complete.log_prob, complete.after, self.length_penalty)
        if len(scores) >= self.top:
            floor = float(scores.topk(self.top).values[-1])
            self.floor = max(self.floor, floor - ROUNDING * (1 + abs(floor)))
        return complete.best(scores, self.top)

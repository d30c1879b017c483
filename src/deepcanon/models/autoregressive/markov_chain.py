"""Markov chain of order k."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from deepcanon.core import Absorb, Recipe, Sequences, Turn, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.padding import full_lengths, known_tokens, valid_positions
from deepcanon.models._language_model import LanguageModel

NOTHING = -1
"""What stands in place of a token before the first one."""
FREE = torch.iinfo(torch.long).max
"""The number of no n-gram, which fills the rest of a table."""


class History(tuple[Tensor]):
    """The last tokens that were read, (B, order)."""

    def select(self, rows: Tensor) -> Self:
        """Those of these rows."""
        return type(self)((self[0].index_select(0, rows),))


class MarkovChain(LanguageModel[Sequences]):
    r"""A language model by counting: the next token depends on the k tokens before it, by how often it followed them.

    Also known as: n-gram model, k-th order Markov model.

    .. math:: p(x_{t+1} \mid x_{\le t}) = p_k(x_{t+1} \mid x_{t-k+1} \dots x_t) \qquad (1)

    With n the count of a token after its k predecessors, N the count of these, D the number of different tokens that
    followed them and V the size of the vocabulary, each order is smoothed by the one below (Witten and Bell):

    .. math:: p_k = \frac{n + D\, p_{k-1}}{N + D}, \qquad p_{-1} = \frac{1}{V} \qquad (2)

    and :math:`p_k = p_{k-1}` after what never occurred. With ``smoothing``, a number that is added to every count,

    .. math:: p_k = \frac{n + \alpha}{N + \alpha V} \qquad (3)

    in place of that: :math:`\alpha = 1` is Laplace's rule, and 0 are the empirical frequencies, by which what never
    occurred has the probability 0. Where fewer than k tokens are before one, the chain is of as many. One epoch counts
    everything; further ones add nothing.

    The docstrings of the standard library, in a second, and text that continues a prompt::

        deepcanon train markov_chain --data text --order 4
        deepcanon generate runs/markov_chain-text --prompt "Return the "

    References:
        | A Mathematical Theory of Communication (Shannon, 1948), https://doi.org/10.1002/j.1538-7305.1948.tb01338.x
        | The zero-frequency problem: estimating the probabilities of novel events in adaptive text compression
          (Witten and Bell, 1991), https://doi.org/10.1109/18.87000

    Arguments:
        vocab: The number of different tokens.
        order: The number of tokens k that the next one depends on.
        smoothing: What is added to every count; by default, smoothing is that of Witten and Bell.
        entries: The most different n-grams of each length that there is room for.
    """

    recipe = Recipe(batch_size=1024, epochs=1, keep_weights="last")
    uncounted: Tensor

    def __init__(self, vocab: int, order: int = 3, smoothing: float | None = None, entries: int = 2**18) -> None:
        super().__init__(vocab)
        at_least(0, order=order)
        at_least(1, entries=entries)
        if smoothing is not None and not 0 <= smoothing < math.inf:
            raise UsageError(f"smoothing is a number that is added to every count, 0 or more (got {smoothing})")
        if (order + 1) * math.log2(max(2, vocab)) > 62:  # an n-gram is one whole number
            raise UsageError(f"an order of {order} with {vocab} tokens has too many n-grams to be numbered")
        self.order, self.smoothing = order, smoothing
        self.register_buffer("uncounted", torch.tensor(FREE))  # the sequences that are still to be counted
        for k in range(order + 1):
            room = min(entries, vocab ** (k + 1))
            self.register_buffer(f"grams{k}", torch.full((room,), FREE))  # in order; the free places are the last
            self.register_buffer(f"counts{k}", torch.zeros(room, dtype=torch.long))

    @classmethod
    def example(cls) -> tuple[Self, Sequences]:
        start = torch.arange(16).unsqueeze(1)
        x = (start + torch.arange(9) * (1 + start % 2)) % 5
        batch = Sequences(x, 3 + torch.arange(16) % 7)
        chain = cls(vocab=5, order=2, entries=64)
        chain.count(batch.select(torch.arange(8)))
        return chain, batch

    @classmethod
    def of(cls, x: Tensor, lengths: Tensor, vocab: int, order: int, smoothing: float | None = None) -> Self:
        """The chain that has counted these sequences, with room for no more."""
        different = len(_coded(known_tokens(x, lengths, vocab), order, vocab).unique())
        # A shorter n-gram is the end of one of these, or stands at the beginning of a sequence.
        chain = cls(vocab, order, smoothing, entries=different + (order + 1) * len(x))
        chain.count(Sequences(x, lengths))
        return chain

    def prepare(self, data: Iterable[Sequences]) -> None:
        rows = 0

        def seen() -> Iterator[Sequences]:
            nonlocal rows
            for batch in data:
                rows += len(batch)
                yield batch

        super().prepare(seen())
        self.uncounted.fill_(rows)

    def turns(self) -> Sequence[Turn[Sequences]]:
        return [Absorb(self.count_once)]

    def count_once(self, batch: Sequences) -> None:
        """Count a batch of the training, in its first epoch; those of further ones are the same sequences."""
        new = min(len(batch), int(self.uncounted))
        if new:
            self.count(batch if new == len(batch) else batch.select(torch.arange(new, device=batch.device)))
            self.uncounted -= new

    @torch.no_grad()
    def count(self, batch: Sequences) -> None:
        """Count the n-grams of a batch, of all lengths up to k + 1."""
        x = known_tokens(batch.x, batch.lengths, self.vocab)
        inside = valid_positions(x, batch.lengths)
        for k in range(self.order + 1):
            grams, counts = self._table(k)
            new = _coded(x, k, self.vocab)[inside[:, k:]]
            old = int((grams != FREE).sum())
            every, place = torch.cat([grams[:old], new]).unique(return_inverse=True)
            if len(every) > len(grams):
                raise UsageError(
                    f"there are more than {len(grams):,} different n-grams of {k + 1} tokens: give more entries, or a "
                    f"lower order than {self.order}"
                )
            total = torch.zeros_like(every).index_add_(0, place, torch.cat([counts[:old], torch.ones_like(new)]))
            grams[: len(every)], counts[: len(every)] = every, total

    def read(self, tokens: Tensor, state: History | None) -> tuple[Tensor, History]:
        """For each of the tokens (B, t) the last k up to it, (B, t, k), and the last k of all."""
        before = tokens.new_full((len(tokens), self.order), NOTHING) if state is None else state[0]
        past = torch.cat([before, tokens], 1)
        windows = past.unfold(1, self.order, 1)[:, 1:] if self.order else tokens.new_zeros(*tokens.shape, 0)
        return windows, History((past[:, past.shape[1] - self.order :],))

    def nats(self, outputs: Tensor, tokens: Tensor) -> Tensor:
        return -self.probabilities(outputs, tokens)[-1].log()

    def logits(self, outputs: Tensor) -> Tensor:
        every = torch.arange(self.vocab, device=outputs.device).expand(*outputs.shape[:2], -1)
        return self.probabilities(outputs.unsqueeze(2), every)[-1].log()  # eq. (1)

    def probabilities(self, context: Tensor, tokens: Tensor) -> list[Tensor]:
        """The probability of the tokens after a context, (..., k), by the chain of every order from 0 to k."""
        share = torch.full(tokens.shape, 1 / self.vocab, dtype=torch.float64, device=tokens.device)
        found, code = [], context.new_zeros(context.shape[:-1])
        there = torch.ones_like(code, dtype=torch.bool)
        for k in range(self.order + 1):
            if k:
                there = context[..., -k] != NOTHING
                code = code + context[..., -k].clamp_min(0) * self.vocab ** (k - 1)
            n, total, kinds = self._counted(k, code, tokens)
            if self.smoothing is None:
                new = (n + kinds * share) / (total + kinds).clamp_min(1)  # eq. (2)
                there = there & (total > 0)
            else:
                weight = total + self.smoothing * self.vocab
                new = torch.where(weight > 0, (n + self.smoothing) / weight, 1 / self.vocab)  # eq. (3)
            share = torch.where(there, new, share)
            found.append(share)
        return found

    def log_probs_by_order(self, x: Tensor, lengths: Tensor | None = None) -> list[Tensor]:
        """The log-probability of each token by the chain of every order from 0 to k, (B, T) each, as the steps'."""
        known = known_tokens(x, lengths, self.vocab)
        inside = valid_positions(x, full_lengths(x) if lengths is None else lengths)[:, 1:]
        shares = self.probabilities(self.outputs(known[:, :-1]), known[:, 1:])
        return [torch.nn.functional.pad(share.log().masked_fill(~inside, 0), (1, 0)) for share in shares]

    def _counted(self, k: int, context: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of tokens after contexts of k tokens: n, N and D, double precision."""
        grams, counts = self._table(k)
        first = context * self.vocab
        ends = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        low, high = torch.searchsorted(grams, first), torch.searchsorted(grams, first + self.vocab)
        place = torch.searchsorted(grams, first + tokens).clamp_max(len(grams) - 1)
        n = torch.where(grams[place] == first + tokens, counts[place], 0)
        return n.double(), (ends[high] - ends[low]).double(), (high - low).double()

    def _table(self, k: int) -> tuple[Any, Any]:
        return getattr(self, f"grams{k}"), getattr(self, f"counts{k}")


def _coded(x: Tensor, k: int, vocab: int) -> Tensor:
    """Each token from the k-th on, with the k tokens before it, as one number, (B, T - k)."""
    if x.shape[1] <= k:
        return x[:, :0]
    codes = torch.zeros_like(x[:, k:])
    for back in range(k, -1, -1):
        codes = codes * vocab + x[:, k - back : x.shape[1] - back]
    return codes

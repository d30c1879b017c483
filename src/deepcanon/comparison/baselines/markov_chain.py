"""The Markov chain: tokens predicted by how often each followed the few before it."""

from __future__ import annotations

from collections.abc import Generator as Parts
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.core import Sequences
from deepcanon.core.padding import full_lengths, known_tokens, valid_positions
from deepcanon.data import Dataset

MOST_ORDER = 6
MOST_ROWS = 2**22
"""Of more training tokens than these the first windows are counted."""

Codes = NDArray[np.int64]


class MarkovChain(BaselineMethod):
    r"""A chain of the order that is best on validation data, each order smoothed by the one below (Witten and Bell).

    With n the count of a token after its k predecessors, N the count of these and D the number of different tokens that
    followed them,

    .. math:: p_k = \frac{n + D\, p_{k-1}}{N + D}, \qquad p_{-1} = \frac{1}{V}

    and :math:`p_k = p_{k-1}` after what never occurred. Nothing before a window is read, as models read nothing there.

    References:
        | The zero-frequency problem: estimating the probabilities of novel events in adaptive text compression
          (Witten and Bell, 1991), https://doi.org/10.1109/18.87000
    """

    name = "markov_chain"
    label = "Markov chain"
    likelihood_kind = "exact"

    def __init__(self, rows: Tensor, lengths: Tensor, vocab: int, order: int) -> None:
        self.vocab, self.order = vocab, order
        self.counts = [_Counts.of(*_grams(rows, lengths, k, vocab)) for k in range(order + 1)]

    @classmethod
    def suits(cls, data: Dataset[Any]) -> bool:
        return isinstance(data.train, Sequences) and "vocab" in data.sizes

    @classmethod
    def fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        train, vocab = data.train, data.sizes["vocab"]
        rows = max(1, MOST_ROWS // train.x.shape[1])
        x, lengths = train.x[:rows].cpu(), train.lengths[:rows].cpu()
        most = min(MOST_ORDER, int(62 / np.log2(max(2, vocab))) - 1)  # so that an n-gram is one whole number
        chain = cls(x, lengths, vocab, max(0, most))
        if data.valid is not None:
            nats = chain.log_probs_by_order(data.valid.x.cpu(), data.valid.lengths.cpu())
            chain.order = int(np.argmax([float(each.sum()) for each in nats]))
        yield chain

    @property
    def choice(self) -> str:
        return f"order {self.order}"

    def step_log_probs(self, x: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        """The log-probability of each token given those before it, (B, T); of the first one and in the padding 0."""
        rows = x.cpu()
        return self.log_probs_by_order(rows, full_lengths(rows) if lengths is None else lengths.cpu())[self.order]

    def log_prob(self, x: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        """The log-probability of each sequence given its first token, (B,)."""
        return self.step_log_probs(x, lengths=lengths).sum(1)

    def log_probs_by_order(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        """The log-probabilities of each token under the chain of every order up to the largest, (B, T) each."""
        x = known_tokens(x, lengths, self.vocab)
        share = np.full(tuple(x.shape), 1 / self.vocab)
        counted = valid_positions(x, lengths).numpy()
        counted[:, 0] = False
        found = []
        for order, counts in enumerate(self.counts):
            words, there = _coded(x.numpy(), order, self.vocab)
            n, total, kinds = counts.at(words, self.vocab)
            seen = there & (total > 0)
            mixed = (n + kinds * share) / np.maximum(total + kinds, 1)
            share = np.where(seen, mixed, share)
            found.append(torch.from_numpy(np.where(counted, np.log(share), 0.0)))
        return found


class _Counts:
    """The counts of n-grams, and of the contexts that they begin with."""

    def __init__(self, words: Codes, counts: Codes, contexts: Codes, totals: Codes, kinds: Codes) -> None:
        self.words, self.counts = words, counts
        self.contexts, self.totals, self.kinds = contexts, totals, kinds

    @classmethod
    def of(cls, grams: Codes, vocab: int) -> Self:
        words, counts = np.unique(grams, return_counts=True)
        contexts, first, kinds = np.unique(words // vocab, return_index=True, return_counts=True)
        totals = np.add.reduceat(counts, first) if len(counts) else counts
        return cls(words, counts, contexts, totals, kinds)

    def at(self, words: Codes, vocab: int) -> tuple[Codes, Codes, Codes]:
        """Of each n-gram its count, that of its context, and how many different tokens followed that."""
        context = words // vocab
        return (
            _looked_up(self.words, self.counts, words),
            _looked_up(self.contexts, self.totals, context),
            _looked_up(self.contexts, self.kinds, context),
        )


def _grams(rows: Tensor, lengths: Tensor, order: int, vocab: int) -> tuple[Codes, int]:
    """All n-grams of the order inside the rows, one after the other, and the size of the vocabulary."""
    words, there = _coded(known_tokens(rows, lengths, vocab).numpy(), order, vocab)
    return words[there & valid_positions(rows, lengths).numpy()], vocab


def _coded(rows: Codes, order: int, vocab: int) -> tuple[Codes, NDArray[np.bool_]]:
    """Each token with the ``order`` tokens before it as one number, and where a row has so many before it."""
    words = np.zeros(rows.shape, dtype=np.int64)
    for back in range(order, -1, -1):
        shifted = np.zeros_like(words)
        shifted[:, back:] = rows[:, : rows.shape[1] - back]
        words = words * vocab + shifted
    there = np.broadcast_to(np.arange(rows.shape[1]) >= order, rows.shape)
    return words, there


def _looked_up(keys: Codes, values: Codes, wanted: Codes) -> Codes:
    """The value of each wanted key; 0 for one that is not there."""
    if not len(keys):
        return np.zeros_like(wanted)
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)

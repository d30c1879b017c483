"""The context windows of a text: blocks of words, each with its context, so that scores are products of matrices."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from deepcanon.core import Sequences
from deepcanon.core.padding import valid_positions

BLOCK = 16
"""The number of words of a block."""


@dataclass(frozen=True)
class Blocks:
    """A text in N blocks of S = ``BLOCK`` words and, for each, the P = S + 2 window words in and around it."""

    words: Tensor  # (N, S)
    around: Tensor  # (N, P)
    near: Tensor  # (N, S, P): 1 where the second position is in the window of the first and is not the same, else 0

    @property
    def neighbors(self) -> Tensor:
        """The number of context words of each word, (N, S, 1); 0 where a block is padded."""
        return self.near.sum(2, keepdim=True)


def expected_words(batch: Sequences, keep: Tensor) -> Tensor:
    """The expected number of words of each row that subsampling leaves, (B,)."""
    kept = keep.index_select(0, batch.x.flatten()).view(batch.x.shape)
    return kept.masked_fill(~valid_positions(batch.x, batch.lengths), 0).sum(1)


def expected_pairs(words: Tensor, window: int) -> Tensor:
    r"""The expected number of pairs of a word and one in its window in rows of so many words, (B,).

    .. math:: \sum_{d=1}^{w} \frac{w - d + 1}{w}\, 2\, (n - d)_+ \qquad (1)

    Two words that are d apart are near each other in the share of the windows that reach so far. In the number of words
    this is linear from ``window`` words on, so that the expectation over what subsampling leaves is (1) of its mean.

    >>> expected_pairs(torch.tensor([1.0, 2.0, 10.0]), window=1)
    tensor([ 0.,  2., 18.])
    """
    apart = torch.arange(1, window + 1, device=words.device)
    reach = (window + 1 - apart) / window
    return (2 * reach * (words.unsqueeze(1) - apart).clamp_min(0)).sum(1)  # eq. (1)


def expected_centers(words: Tensor) -> Tensor:
    """The expected number of words with a word next to them, (B,): all but one that is alone in its row.

    >>> expected_centers(torch.tensor([0.5, 1.0, 2.0, 10.0]))
    tensor([ 0.,  0.,  2., 10.])
    """
    return torch.minimum(words, 2 * (words - 1).clamp_min(0))


@torch.no_grad()
def blocks(batch: Sequences, window: int, keep: Tensor, dtype: torch.dtype) -> Blocks:
    """The batch as blocks, with subsampling of frequent words and random windows.

    A word is left out with the probability 1 - keep[word], and those around it then move together. A window has 1 to
    ``window`` words to each side, drawn anew for each word, and never crosses the end of a row.
    """
    device = batch.x.device
    rows, length = batch.x.shape
    there = valid_positions(batch.x, batch.lengths)
    kept = keep.index_select(0, batch.x.flatten()).view(rows, length)  # the probabilities
    positions = (there & (torch.rand(rows, length, device=device) < kept)).flatten().nonzero().squeeze(1)
    words = batch.x.flatten().index_select(0, positions)
    row = (positions // length).int()
    missing = -len(words) % BLOCK if len(words) else BLOCK  # to the end of the last block; there is always one
    margins = (window, window + missing)
    span = BLOCK + 2 * window
    around = pad(words, margins).unfold(0, span, BLOCK)  # (N, P)
    theirs = pad(row, margins, value=-1).unfold(0, span, BLOCK)
    inner = slice(window, window + BLOCK)
    ours = theirs[:, inner].unsqueeze(2)  # (N, S, 1)
    reach = torch.randint(1, window + 1, ours.shape, device=device, dtype=torch.int32)
    reach.masked_fill_(ours < 0, 0)
    steps = torch.arange(span, device=device, dtype=torch.int32)
    apart = (steps - window - steps[:BLOCK, None]).abs()  # (S, P)
    apart.masked_fill_(apart == 0, span)
    near = (apart <= reach) & (theirs.unsqueeze(1) == ours)
    return Blocks(around[:, inner], around, near.to(dtype))

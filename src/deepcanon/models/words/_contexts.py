"""The context windows of a text: blocks of words, each with its context, so that scores are products of matrices."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from deepcanon.core import Sequences

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


@torch.no_grad()
def blocks(batch: Sequences, window: int, keep: Tensor, dtype: torch.dtype) -> Blocks:
    """The batch as blocks, with subsampling of frequent words and random windows.

    A word is left out with the probability 1 - keep[word], and those around it then move together. A window has 1 to
    ``window`` words to each side, drawn anew for each word, and never crosses the end of a row.
    """
    device = batch.x.device
    rows, length = batch.x.shape
    there = torch.arange(length, device=device) < batch.lengths.unsqueeze(1)
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

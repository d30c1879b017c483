"""The context windows of a text: blocks of words, each with its context, so that scores are products of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad

from deepcanon.core import Sequences
from deepcanon.core.padding import valid_positions

BLOCK = 16
"""The number of words of a block."""


@dataclass(frozen=True)
class Blocks:
    """A text in N blocks of S = ``BLOCK`` words and, for each, the P = S + 2 window words in and around it.

    The last block is padded with words that have no neighbors.
    """

    words: Tensor  # (N, S)
    row: Tensor  # (N S + 2 window,): all words in order, with padding before and after them
    forms: Tensor  # (N, S): how far the window of each word reaches, a row of the table of windows
    neighbors: Tensor  # (N, S, 1): the number of context words of each word; 0 where a block is padded
    expected: Tensor  # (B,): the expected number of words of each row that subsampling leaves
    window: int

    @property
    def around(self) -> Tensor:
        """The words in and around each block, (N, P)."""
        return self.row.unfold(0, BLOCK + 2 * self.window, BLOCK)

    @cached_property
    def near(self) -> Tensor:
        """1 where the second position is in the window of the first and is not the same, else 0, (N, S, P)."""
        table = _windows_in_block(self.window, self.neighbors.dtype, self.words.device)
        form = self.forms + torch.arange(BLOCK, device=self.words.device) * (self.window + 1) ** 2
        return table.index_select(0, form.flatten()).view(*self.words.shape, -1)


@dataclass(frozen=True)
class Contexts:
    """The contexts of M words that follow each other: at most C = 2 window + 1 words, with a weight for each."""

    words: Tensor  # (M, C): those from ``window`` words before to as many after each word
    weight: Tensor  # (M, C): 0 for those out of its window, and for itself

    def summed(self, table: Tensor) -> Tensor:
        """The sum of the vectors of each context, (M, latent), each times its weight."""
        return embedding_bag(self.words, table, mode="sum", per_sample_weights=self.weight)

    def spread(self, by_sums: Tensor) -> Tensor:
        """The gradient by the vector at each position, (M, latent), from that by the sums: the transposed sum."""
        count, width = self.weight.shape
        side = width // 2
        at = torch.arange(-side, count + side, device=by_sums.device).clamp_(0, count - 1).unfold(0, width, 1)
        # A word at the distance d from a position has it in its window at the distance -d.
        padded = pad(self.weight, (0, 0, side, side))
        weight = padded.as_strided((count, width), (width, width - 1), width - 1)
        return embedding_bag(at.contiguous(), by_sums, mode="sum", per_sample_weights=weight.contiguous())


def contexts(text: Blocks, average: bool) -> Contexts:
    """The contexts of all words of a text, of which CBOW takes the mean or the sum."""
    table = _windows(text.window, average, text.neighbors.dtype, text.words.device)
    words = text.row.unfold(0, 2 * text.window + 1, 1).contiguous()
    return Contexts(words, table.index_select(0, text.forms.flatten()))


def kept_words(batch: Sequences, keep: Tensor) -> Tensor:
    """The probability of each word that subsampling leaves it, (B, T); 0 in the padding."""
    kept = keep.index_select(0, batch.x.flatten()).view(batch.x.shape)
    return kept.masked_fill_(~valid_positions(batch.x, batch.lengths), 0)


def expected_pairs(words: Tensor, window: int, fixed: bool = False) -> Tensor:
    r"""The expected number of pairs of a word and one in its window in rows of so many words, (B,).

    .. math:: \sum_{d=1}^{w} \frac{w - d + 1}{w}\, 2\, (n - d)_+ \qquad (1)

    Two words that are d apart are near each other in the share of the windows that reach so far, and always if windows
    are fixed. In the number of words this is linear from ``window`` words on, so that the expectation over what
    subsampling leaves is (1) of its mean.

    >>> expected_pairs(torch.tensor([1.0, 2.0, 10.0]), window=1)
    tensor([ 0.,  2., 18.])
    """
    apart = torch.arange(1, window + 1, device=words.device)
    reach = torch.ones_like(apart) if fixed else (window + 1 - apart) / window
    return (2 * reach * (words.unsqueeze(1) - apart).clamp_min(0)).sum(1)  # eq. (1)


def expected_centers(words: Tensor) -> Tensor:
    """The expected number of words with a word next to them, (B,): all but one that is alone in its row.

    >>> expected_centers(torch.tensor([0.5, 1.0, 2.0, 10.0]))
    tensor([ 0.,  0.,  2., 10.])
    """
    return torch.minimum(words, 2 * (words - 1).clamp_min(0))


@torch.no_grad()
def blocks(batch: Sequences, window: int, keep: Tensor, dtype: torch.dtype, fixed: bool = False) -> Blocks:
    """The batch as blocks, with subsampling of frequent words and random windows.

    A word is left out with the probability 1 - keep[word], and those around it then move together. A window has 1 to
    ``window`` words to each side, drawn anew for each word, or always ``window`` if it is fixed, and never crosses the
    end of a row.
    """
    device = batch.x.device
    rows, length = batch.x.shape
    kept = kept_words(batch, keep)
    positions = (torch.rand(rows, length, device=device) < kept).flatten().nonzero().squeeze(1)
    words = batch.x.flatten().index_select(0, positions)
    row = positions // length
    counts = torch.bincount(row, minlength=rows)
    ends = counts.cumsum(0)
    place = torch.arange(len(words), device=device)
    reach = torch.full_like(words, window) if fixed else torch.randint(1, window + 1, words.shape, device=device)
    left = torch.minimum(place - (ends - counts).index_select(0, row), reach)
    right = torch.minimum(ends.index_select(0, row) - 1 - place, reach)
    missing = -len(words) % BLOCK if len(words) else BLOCK  # to the end of the last block; there is always one
    forms = pad(left * (window + 1) + right, (0, missing)).view(-1, BLOCK)
    row_of_words = pad(words, (window, window + missing))
    neighbors = pad(left + right, (0, missing)).view(-1, BLOCK, 1).to(dtype)
    return Blocks(
        row_of_words[window : len(row_of_words) - window].view(-1, BLOCK),
        row_of_words,
        forms,
        neighbors,
        kept.sum(1),
        window,
    )


@cache
def _windows_in_block(window: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """All windows in a block: a row of P zeros and ones for each word of it, reach to the left and to the right."""
    reach = torch.arange(window + 1)
    middle = torch.arange(BLOCK).view(-1, 1, 1, 1) + window
    other = torch.arange(BLOCK + 2 * window)
    inside = (other >= middle - reach.view(-1, 1, 1)) & (other <= middle + reach.view(-1, 1)) & (other != middle)
    return inside.flatten(0, 2).to(device, dtype)


@cache
def _windows(window: int, average: bool, dtype: torch.dtype, device: torch.device) -> Tensor:
    """All windows: a row of 2 window + 1 weights for each reach to the left and to the right; none for the middle."""
    reach, other = torch.arange(window + 1), torch.arange(-window, window + 1)
    inside = (other >= -reach.view(-1, 1, 1)) & (other <= reach.view(-1, 1)) & (other != 0)
    weight = inside.flatten(0, 1).to(device, dtype)
    return weight / weight.sum(1, keepdim=True).clamp_min(1) if average else weight

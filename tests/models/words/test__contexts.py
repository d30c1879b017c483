"""Windows reach as far as drawn, never over the end of a row, and close over words that are left out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from deepcanon.core import Sequences
from deepcanon.models.words._contexts import BLOCK, Blocks, blocks, contexts


def text(rows: int = 5, length: int = 23) -> Sequences:
    """Every position has a word of its own, so that words identify positions."""
    x = torch.arange(rows * length).view(rows, length)
    return Sequences(x, torch.tensor([length, 1, 17, length, 4])[:rows])


def pairs(seen: Blocks) -> set[tuple[int, int]]:
    """All pairs of a word and one near it."""
    n, i, j = seen.near.nonzero().T
    return set(zip(seen.words[n, i].tolist(), seen.around[n, j].tolist(), strict=True))


def keep_all(batch: Sequences) -> Tensor:
    return torch.ones(int(batch.x.max()) + 1)


def test_a_window_of_one_holds_the_neighbors_in_the_row() -> None:
    batch = text()
    expected = {
        (int(row[i]), int(row[j]))
        for row, length in zip(batch.x, batch.lengths.tolist(), strict=True)
        for i in range(length)
        for j in (i - 1, i + 1)
        if 0 <= j < length
    }
    assert pairs(blocks(batch, 1, keep_all(batch), torch.float64)) == expected


@pytest.mark.parametrize("window", [2, 5, 20])
def test_a_window_reaches_equally_often_over_each_number_of_words(window: int) -> None:
    batch = Sequences(torch.arange(4000).view(40, 100), torch.full((40,), 100))
    torch.manual_seed(0)
    seen = blocks(batch, window, keep_all(batch), torch.float32)
    apart = torch.tensor([other - word for word, other in pairs(seen)])
    assert int(apart.abs().max()) == window
    for distance in range(1, window + 1):
        possible = 40 * (100 - distance)
        share = (window - distance + 1) / window
        for side in (-distance, distance):
            found = int((apart == side).sum())
            assert abs(found - share * possible) <= 5 * (possible * share * (1 - share)) ** 0.5
    both = {(word, other) for word, other in pairs(seen) if other > word}
    assert {(word, 2 * word - other) for word, other in both if 5 * window < word % 100 < 100 - 5 * window} <= pairs(
        seen
    )


def test_words_that_are_left_out_let_the_others_move_together() -> None:
    batch = text(rows=1)
    keep = keep_all(batch)
    keep[1::2] = 0
    assert pairs(blocks(batch, 1, keep, torch.float64)) == {
        (word, other) for word in range(0, 23, 2) for other in (word - 2, word + 2) if 0 <= other < 23
    }


def test_words_are_kept_with_their_probability() -> None:
    batch = Sequences(torch.zeros(100, 100, dtype=torch.long), torch.full((100,), 100))
    torch.manual_seed(0)
    seen = blocks(batch, 1, torch.tensor([0.3]), torch.float32)
    assert abs(int((seen.neighbors > 0).sum()) - 3000) < 5 * (10_000 * 0.3 * 0.7) ** 0.5


def test_where_nothing_is_left_none_is_near() -> None:
    seen = blocks(text(), 2, torch.zeros(200), torch.float32)
    assert seen.near.shape == (1, BLOCK, BLOCK + 4)
    assert not seen.near.any()


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("window", [1, 5, 20])
def test_sums_of_contexts_are_products_with_the_windows_and_spread_is_their_transpose(
    window: int, average: bool
) -> None:
    torch.manual_seed(0)
    batch = Sequences(torch.randint(7, (3, 11)), torch.tensor([11, 1, 4]))
    seen = blocks(batch, window, torch.ones(7), torch.float64)
    table, by_sums = torch.randn(7, 4, dtype=torch.float64), torch.randn(seen.words.numel(), 4, dtype=torch.float64)
    weight = seen.near / seen.neighbors.clamp_min(1) if average else seen.near
    found = contexts(seen, average)
    torch.testing.assert_close(found.summed(table), (weight @ table[seen.around]).flatten(0, 1))
    by_words = torch.zeros_like(table).index_add_(0, seen.words.flatten(), found.spread(by_sums))
    around = weight.mT @ by_sums.view(*seen.words.shape, 4)
    wanted = torch.zeros_like(table).index_add_(0, seen.around.flatten(), around.flatten(0, 1))
    torch.testing.assert_close(by_words, wanted)

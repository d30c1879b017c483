"""A key-value cache gives back what was appended, of the rows that are asked for."""

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.nn.kv_cache import KVCache


def filled(capacity: int = 8) -> tuple[KVCache, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(3, 2, 5, 4, generator=generator) for _ in range(2))
    cache = KVCache(capacity)
    cache.append(keys[:, :, :2], values[:, :, :2])
    cache.append(keys[:, :, 2:], values[:, :, 2:])
    return cache, keys, values


@pytest.mark.parametrize("capacity", [2, 5, 8])
def test_selected_rows_are_a_cache_of_their_own(capacity: int) -> None:
    cache, keys, values = filled(capacity)
    rows = torch.tensor([2, 0, 0, 1])
    chosen = cache.select(rows)
    assert all(torch.equal(one, other[rows]) for one, other in zip(chosen.all(), (keys, values), strict=True))
    more = torch.ones(4, 2, 1, 4)
    assert torch.equal(chosen.append(more, more)[0][:, :, 5:], more)
    assert torch.equal(cache.all()[0], keys), "the cache itself has changed"


def test_reordered_rows_take_the_place_of_all_from_a_position_on() -> None:
    cache, keys, values = filled()
    rows = torch.tensor([1, 1, 0])
    cache.reorder(rows, 3)
    for found, before in zip(cache.all(), (keys, values), strict=True):
        assert torch.equal(found[:, :, :3], before[:, :, :3])
        assert torch.equal(found[:, :, 3:], before[rows, :, 3:])
    KVCache(2).reorder(rows, 0)  # of an empty one nothing is moved


def test_an_empty_cache_has_nothing() -> None:
    with pytest.raises(UsageError, match="the cache is empty"):
        KVCache(2).all()
    assert KVCache(2).select(torch.tensor([0])).size == 0

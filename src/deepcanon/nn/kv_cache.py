"""The key-value cache of attention: keys and values of the tokens that were read, in preallocated memory."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.display import Shown


class KVCache(Shown):
    """The key-value cache of one attention layer: keys and values of all tokens read so far, in preallocated memory.

    It starts empty, with room for ``capacity`` positions, and grows when that is not enough.

    >>> import torch
    >>> cache = KVCache(capacity=4)
    >>> keys, values = cache.append(torch.ones(1, 2, 3, 8), torch.ones(1, 2, 3, 8))
    >>> keys, values = cache.append(torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8))
    >>> keys.shape
    torch.Size([1, 2, 4, 8])
    """

    def __init__(self, capacity: int) -> None:
        at_least(1, capacity=capacity)
        self.capacity = capacity
        self.size = 0
        self.keys: Tensor | None = None  # (B, heads, capacity, d)
        self.values: Tensor | None = None

    def _facts(self) -> dict[str, Any]:
        return {"size": self.size, "capacity": self.capacity}

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append t keys and values, (B, heads, t, d), and return all there are."""
        end = self.size + key.shape[2]
        if self.keys is None or self.values is None or end > self.capacity:
            self._make_room(key, value, end)
        assert self.keys is not None
        assert self.values is not None
        self.keys.narrow(2, self.size, key.shape[2]).copy_(key)  # faster than by slices
        self.values.narrow(2, self.size, key.shape[2]).copy_(value)
        self.size = end
        return self.all()

    def all(self) -> tuple[Tensor, Tensor]:
        """All keys and values, (B, heads, size, d)."""
        if self.keys is None or self.values is None:
            raise UsageError("the cache is empty: append keys and values first")
        return self.keys.narrow(2, 0, self.size), self.values.narrow(2, 0, self.size)

    def select(self, rows: Tensor) -> Self:
        """A cache of these rows, as beam search needs when it keeps some of its hypotheses."""
        chosen = type(self)(self.capacity)
        if self.keys is not None and self.values is not None:
            chosen.append(*(part.index_select(0, rows) for part in self.all()))
        return chosen

    def reorder(self, rows: Tensor, start: int) -> None:
        """Put as many rows in the place of all, where before the position ``start`` they are the same."""
        if self.keys is not None and self.values is not None and start < self.size:
            for memory in (self.keys, self.values):
                moved = memory.narrow(2, start, self.size - start)
                moved.copy_(moved.index_select(0, rows))

    def crop(self, size: int) -> None:
        """Forget all but the first ``size`` positions."""
        if not 0 <= size <= self.size:
            raise UsageError(f"a cache of {self.size} positions can be cropped to 0 to {self.size} (got {size})")
        self.size = size

    def _make_room(self, key: Tensor, value: Tensor, end: int) -> None:
        self.capacity = max(end, 2 * self.capacity if end > self.capacity else self.capacity)
        old = self.keys, self.values
        self.keys, self.values = (new.new_empty(*new.shape[:2], self.capacity, new.shape[3]) for new in (key, value))
        for memory, before in zip((self.keys, self.values), old, strict=True):
            if before is not None:
                memory[:, :, : self.size] = before[:, :, : self.size]

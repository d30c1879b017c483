"""Batches of pairs of sentences in one row of tokens, with segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from deepcanon.core.batch import AnyBatch
from deepcanon.core.errors import DataError


@dataclass(frozen=True, eq=False)
class SentencePairs(AnyBatch):
    """Two sentences in each row of tokens ``x`` (B, T): class token, first sentence, separator, second one, separator.

    Of row i the first ``lengths[i]`` tokens count, the others are padding. ``segments`` (B, T) are 0 up to the first
    separator and 1 after it. The label ``y`` (B,) is 0 where the second sentence follows the first in their text, and 1
    where it comes from elsewhere.

    >>> import torch
    >>> x = torch.tensor([[1, 7, 2, 8, 2, 0]])
    >>> pairs = SentencePairs(x, torch.tensor([5]), torch.tensor([[0, 0, 0, 1, 1, 0]]), torch.tensor([0]))
    >>> len(pairs.inputs)
    3
    """

    noun = "pairs of sentences"
    lengths: Tensor
    segments: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        rows = {name: len(getattr(self, name)) for name in ("x", "lengths", "segments", "y")}
        if len(set(rows.values())) > 1:
            found = ", ".join(f"{count} of {name}" for name, count in rows.items())
            raise DataError(f"pairs of sentences have as many rows of each part; got {found}")
        if self.segments.shape != self.x.shape:
            raise DataError(
                f"every token has a segment, {tuple(self.x.shape)}; got segments of {tuple(self.segments.shape)}"
            )

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.x, self.lengths, self.segments)

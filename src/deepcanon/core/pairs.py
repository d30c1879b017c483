"""Batches of pairs with a sequence to be written: a sequence and its translation, an image and its caption."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from deepcanon.core.batch import AnyBatch
from deepcanon.core.errors import DataError


@dataclass(frozen=True, eq=False)
class SequencePairs(AnyBatch):
    """Pairs of sequences of tokens, a source and its target: ``x`` (B, S) and ``y`` (B, T), both right-padded.

    Of row i the first ``lengths[i]`` tokens of ``x`` and the first ``y_lengths[i]`` tokens of ``y`` count. The first
    token of ``y`` is the begin token and the last the end token. A model of them predicts every token of ``y`` but the
    first; its loss is the mean over these.

    >>> import torch
    >>> x, y = torch.zeros(2, 5, dtype=torch.long), torch.ones(2, 4, dtype=torch.long)
    >>> SequencePairs(x, torch.tensor([5, 1]), y, torch.tensor([4, 3])).weight
    5
    """

    noun = "pairs of sequences"
    term = "token"
    lengths: Tensor
    y: Tensor
    y_lengths: Tensor

    def __post_init__(self) -> None:
        _check_rows(self)

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.x, self.lengths, self.y, self.y_lengths)

    @property
    def weight(self) -> int:
        return int((self.y_lengths - 1).sum())


@dataclass(frozen=True, eq=False)
class Captioned(AnyBatch):
    """Images with captions: ``x`` (B, channels, height, width) and tokens ``y`` (B, T), right-padded.

    Of row i of ``y`` the first ``y_lengths[i]`` tokens count, from the begin token to the end token. A model of them
    predicts every token of ``y`` but the first; its loss is the mean over these.
    """

    noun = "captioned images"
    term = "token"
    y: Tensor
    y_lengths: Tensor

    def __post_init__(self) -> None:
        _check_rows(self)

    @property
    def inputs(self) -> tuple[Any, ...]:
        return (self.x, self.y, self.y_lengths)

    @property
    def weight(self) -> int:
        return int((self.y_lengths - 1).sum())


def _check_rows(batch: AnyBatch) -> None:
    counts = {part.name: getattr(batch, part.name).shape[0] for part in fields(batch)}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise DataError(f"{batch.noun} have as many rows of each part; got {found}")

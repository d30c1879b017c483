"""Consecutive windows of a text, so that a model may carry its state from batch to batch: ``text:stream``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deepcanon.core import Sequences, Stream
from deepcanon.data.dataset import Dataset

MARK = "stream"
"""The suffix of the form."""


def in_order(part: Sequences) -> Stream:
    """The windows of a text with the position at which each begins.

    >>> import torch
    >>> in_order(Sequences(torch.zeros(3, 5, dtype=torch.long), torch.tensor([5, 5, 3]))).starts
    tensor([0, 4, 8])
    """
    predicted = part.lengths - 1
    return Stream(part.x, part.lengths, predicted.cumsum(0) - predicted)


def as_stream(data: Dataset[Any]) -> Dataset[Stream]:
    """The text with a training split of consecutive windows; the other splits are as they were."""
    return replace(data, name=f"{data.name}:{MARK}", train=in_order(data.train))

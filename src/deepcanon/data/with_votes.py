"""Data with the votes of labeling functions in place of labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from deepcanon.core import DataError, Labeled, Voted
from deepcanon.data.dataset import Dataset


def with_votes(data: Dataset[Any], votes: Tensor) -> Dataset[Voted]:
    """The data with these votes in place of training labels, (examples, sources); -1 is that of one that abstains."""
    if isinstance(data.train, Labeled):
        raise DataError("votes stand in place of y; give one of them")
    train = Voted.of(data.train.x, votes.long())
    classes = int(votes.max()) + 1
    sizes = {**data.sizes, "classes": classes, "sources": votes.shape[1]}
    return replace(data, train=train, sizes=sizes, labels=tuple(map(str, range(classes))))

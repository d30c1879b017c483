"""Validation and test splits that are given next to the training data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deepcanon.core import DataError
from deepcanon.data.dataset import Dataset

GROWING = ("classes", "vocab", "target_vocab", "length", "ratings")
"""Sizes that are the largest of all splits; others must be the same in all."""


def with_splits(data: Dataset[Any], **splits: Dataset[Any]) -> Dataset[Any]:
    """The data with further splits, each the training split of other data of the same kind."""
    sizes = dict(data.sizes)
    for name, part in splits.items():
        if type(part.train) is not type(data.train) or part.train.x.dtype != data.train.x.dtype:
            raise DataError(
                f"the split {name} has {part.train.noun} of {part.train.x.dtype}, the training data are "
                f"{data.train.noun} of {data.train.x.dtype}: give it as those are given"
            )
        for size in sizes.keys() | part.sizes.keys():
            here, there = sizes.get(size), part.sizes.get(size)
            if size in GROWING and here is not None and there is not None:
                sizes[size] = max(here, there)
            elif here != there:
                raise DataError(f"{size} is {there} in the split {name} and {here} in the training data")
    labels = tuple(map(str, range(sizes.get("classes", 0)))) if data.labels else ()
    return replace(data, sizes=sizes, labels=labels, **{name: part.train for name, part in splits.items()})

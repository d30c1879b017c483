"""Validation and test splits: given next to the training data, or held out of these."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from deepcanon.core import DataError, Labeled, SemiBatch, Series
from deepcanon.core.plural import counted
from deepcanon.data.dataset import Dataset
from deepcanon.data.split import HELD_OUT, cut, fixed_random, stratified_order, three_counts

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


def held_out(data: Dataset[Any]) -> Dataset[Any]:
    """The data with a test split: where they have none, it is held out of the training split, always the same.

    It is a fifth, and where there is no validation split that is a tenth: at random, of classes stratified, of time
    series by time. A single graph has none unless its masks say so.

    >>> from deepcanon.core import Batch
    >>> data = held_out(Dataset("x", "table", Batch(torch.zeros(50, 2)), sizes={"features": 2}))
    >>> data.says, data.remarks
    ('x gives rows of a table (2 features): 35 to train, 5 to validate, 10 to test.', \
('x has no test split: 10 of its 50 examples, chosen by a fixed seed, are the test, and 5 validate.',))
    """
    train: Any = data.train
    if data.test is not None or len(train) < 2:
        return data
    if isinstance(train, Series):
        some, last = train.hold_out(HELD_OUT[1], torch.Generator().manual_seed(0))
        said = f"{data.name} has no test split: the last {HELD_OUT[1]:.0%} of the steps of each series are the test."
        data = replace(data, train=some, test=last, remarks=(*data.remarks, said))
        return data.with_validation_split(seed=0)
    count = len(train)
    _, valid, test = three_counts(count, data.name)
    classes = isinstance(train, Labeled) and not isinstance(train, SemiBatch) and "classes" in data.sizes
    order = stratified_order(train.y.cpu().numpy(), 0) if classes else fixed_random(0).permutation(count)
    if data.valid is not None:
        valid = 0
    first, second, third = (
        train.part(rows.to(train.device)) for rows in cut(np.asarray(order), (count - valid - test, valid, test))
    )
    how = f"{counted(count, 'example', ',')}, chosen by a fixed seed{' and by class' if classes else ''}"
    are = "is" if test == 1 else "are"
    more = f", and {valid:,} validate{'s' if valid == 1 else ''}" if valid else ""
    said = f"{data.name} has no test split: {test:,} of its {how}, {are} the test{more}."
    return replace(data, train=first, valid=second if valid else data.valid, test=third, remarks=(*data.remarks, said))

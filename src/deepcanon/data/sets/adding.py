"""The adding problem: predict the sum of two marked numbers in a long sequence."""

from __future__ import annotations

import numpy as np
import torch

from deepcanon.core import LabeledSequences
from deepcanon.core.checks import at_least
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

LENGTH = 100


def problems(count: int, length: int, seed: int) -> LabeledSequences:
    """Sequences of pairs: a number from 0 to 1, and a mark, which is 1 at two positions and 0 elsewhere.

    One mark is in the first half of the sequence and one in the second. To predict 1, the mean, has a mean squared
    error of 1/6; to do better, a network must remember over half of the sequence.

    >>> problems(3, length=10, seed=0).x[..., 1].sum(1)
    tensor([2., 2., 2.])
    """
    at_least(2, length=length)
    random = fixed_random(seed)
    numbers = random.uniform(size=(count, length))
    half = length // 2
    positions = np.stack([random.randint(half, size=count), random.randint(half, length, size=count)], 1)
    marks = np.zeros((count, length))
    np.put_along_axis(marks, positions, 1, axis=1)
    total = np.take_along_axis(numbers, positions, axis=1).sum(1, keepdims=True)
    x = torch.from_numpy(np.stack([numbers, marks], 2)).float()
    return LabeledSequences(x, torch.from_numpy(total).float(), torch.full((count,), length))


def load(entry: Entry) -> Dataset[LabeledSequences]:
    """The splits, each with a seed of its own: 0 for training, 1 for validation, 2 for test."""
    return entry.drawn(problems, LENGTH)


ADDING = Entry(
    name="adding",
    kind="sequences",
    shape=(LENGTH, 2),
    sizes={"features": 2, "targets": 1, "length": LENGTH},
    counts=(20000, 1000, 2000),
    source="drawn here: the adding problem of Hochreiter and Schmidhuber (1997), https://doi.org/10.1162/neco.1997.9.8.1735",
    load=load,
)

"""The adding problem: a long sequence of numbers, two of which are marked; what is their sum?"""

from __future__ import annotations

import numpy as np
import torch

from deepcanon.core import LabeledSequences
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

LENGTH = 100


def problems(count: int, length: int, seed: int) -> LabeledSequences:
    """Sequences of pairs: a number from 0 to 1, and a mark, which is 1 in two places and 0 elsewhere.

    One mark is in the first half of the sequence and one in the second. A guess of 1, the mean, is off by 1/6 in the
    mean of its squares; to do better, a net must remember over half of the sequence.

    >>> problems(3, length=10, seed=0).x[..., 1].sum(1)
    tensor([2., 2., 2.])
    """
    random = fixed_random(seed)
    numbers = random.uniform(size=(count, length))
    half = length // 2
    places = np.stack([random.randint(half, size=count), random.randint(half, length, size=count)], 1)
    marks = np.zeros((count, length))
    np.put_along_axis(marks, places, 1, axis=1)
    total = np.take_along_axis(numbers, places, axis=1).sum(1, keepdims=True)
    x = torch.from_numpy(np.stack([numbers, marks], 2)).float()
    return LabeledSequences(x, torch.from_numpy(total).float(), torch.full((count,), length))


def load(entry: Entry) -> Dataset[LabeledSequences]:
    """Each part has a seed of its own: 0 trains, 1 validates, 2 tests."""
    train, valid, test = (problems(count, LENGTH, seed) for seed, count in enumerate(entry.counts))
    return entry.dataset(train, valid, test)


ADDING = Entry(
    name="adding",
    kind="sequences",
    shape=(LENGTH, 2),
    sizes={"features": 2, "targets": 1, "length": LENGTH},
    counts=(20000, 1000, 2000),
    source="drawn here: the adding problem of Hochreiter and Schmidhuber (1997), https://doi.org/10.1162/neco.1997.9.8.1735",
    load=load,
)

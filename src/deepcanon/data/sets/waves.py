"""One-dimensional regression: the sum of two sine waves, with a little Gaussian noise."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

NOISE = 0.1


def curve(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the targets at x."""
    return np.asarray(np.sin(2 * np.pi * x) + 0.5 * np.sin(6 * np.pi * x))


def load(entry: Entry) -> Dataset[Labeled]:
    """Points drawn uniformly at random from the unit interval, and the curve there with Gaussian noise."""
    parts = []
    for seed, count in enumerate(entry.counts):
        random = fixed_random(seed)
        x = random.uniform(size=(count, 1))
        y = curve(x) + NOISE * random.standard_normal((count, 1))
        parts.append(Labeled(torch.from_numpy(x).float(), torch.from_numpy(y).float()))
    return entry.dataset(*parts)


WAVES = Entry(
    name="waves",
    kind="table",
    shape=(1,),
    sizes={"features": 1, "targets": 1},
    counts=(1000, 200, 200),
    source=f"drawn here: sin(2 pi x) + sin(6 pi x) / 2 with noise of standard deviation {NOISE}",
    load=load,
)

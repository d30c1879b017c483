"""Poisson counts with a log-rate linear in two features, for Poisson regression."""

from __future__ import annotations

import numpy as np
import torch

from deepcanon.core import Labeled
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

WEIGHT = (0.8, -0.5)
BIAS = 1.0


def load(entry: Entry) -> Dataset[Labeled]:
    """Independent Poisson draws around exp(WEIGHT x + BIAS), with x from the standard normal distribution."""
    parts = []
    for seed, count in enumerate(entry.counts):
        random = fixed_random(seed)
        x = random.standard_normal((count, 2))
        y = random.poisson(np.exp(x @ np.array(WEIGHT) + BIAS))
        parts.append(Labeled(torch.from_numpy(x).float(), torch.from_numpy(y).float().unsqueeze(1)))
    return entry.dataset(*parts)


COUNTS = Entry(
    name="poisson-counts",
    kind="table",
    shape=(2,),
    sizes={"features": 2, "targets": 1},
    counts=(2000, 500, 500),
    source=f"drawn here: Poisson counts of rate exp({WEIGHT[0]} x1 - {-WEIGHT[1]} x2 + {BIAS:g})",
    load=load,
)

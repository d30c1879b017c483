"""Bars and stripes: images of 3x3 pixels in which either every row or every column is of one color."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from deepcanon.core import Batch
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry, image_sizes

SIDE = 3
COPIES = 100
"""The number of copies of each pattern in the training split, so that an epoch has many steps."""


def patterns() -> Tensor:
    """The 14 different patterns, (14, 1, 3, 3); the blank and the full one are bars and stripes at once.

    The best negative log-likelihood that a model of them can reach is log 14 = 2.6391 nats.
    """
    rows = torch.tensor(list(product((0.0, 1.0), repeat=SIDE))).unsqueeze(2).expand(-1, SIDE, SIDE)
    different: Tensor = torch.cat([rows, rows.transpose(1, 2)]).unique(dim=0)
    return different.unsqueeze(1)


def load(entry: Entry) -> Dataset[Batch]:
    """The splits, each of them the whole distribution: nothing is held out, so they measure how well it is modeled."""
    every = patterns()
    return entry.dataset(Batch(every.repeat(COPIES, 1, 1, 1)), Batch(every), Batch(every))


BARS_AND_STRIPES = Entry(
    name="bars-and-stripes",
    kind="images",
    shape=(1, SIDE, SIDE),
    sizes=image_sizes((1, SIDE, SIDE)),
    counts=(14 * COPIES, 14, 14),
    source="made here: all patterns of 3x3 bars and stripes (MacKay, 2003, chapter 43)",
    load=load,
    preprocessing={"levels": 2},
)

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
"""How often the training part holds each pattern, so that an epoch is worth its name."""


def patterns() -> Tensor:
    """The 14 different patterns, (14, 1, 3, 3); the blank and the full one are bars and stripes at once.

    The best that a model of uniform draws of them can reach is log 14 = 2.6391 nats.
    """
    rows = torch.tensor(list(product((0.0, 1.0), repeat=SIDE))).unsqueeze(2).expand(-1, SIDE, SIDE)
    different: Tensor = torch.cat([rows, rows.transpose(1, 2)]).unique(dim=0)
    return different.unsqueeze(1)


def load(entry: Entry) -> Dataset[Batch]:
    """Every part is the whole distribution: nothing is held out, so the parts measure how well it is known."""
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

"""MovieLens 100K: a hundred thousand ratings of movies, in the published split u1."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError, HeldOut, Incomplete
from deepcanon.data.dataset import Dataset
from deepcanon.data.download import VARIABLE, Remote, RemoteFile, data_folders
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

USERS, ITEMS, STARS = 943, 1682, 5
VALID = 0.05
"""The share of the ratings in u1.base by which training is validated."""


def load(entry: Entry) -> Dataset[Incomplete]:
    """The ratings of u1.base for training, but for some for validation, and those of u1.test given all of u1.base."""
    if not entry.remote.here():
        names = " and ".join(file.name for file in entry.remote.files)
        raise DataError(
            f"{entry.name} may not be passed on, so it is not downloaded by name: get ml-100k.zip from "
            f"https://grouplens.org/datasets/movielens/100k/ and put {names} into "
            f"{data_folders()[0] / (entry.remote.folder or '')} (another folder: set {VARIABLE})"
        )
    base, test = (_table(np.loadtxt(path, dtype=np.int64)) for path in entry.remote.fetch())
    held = torch.from_numpy(fixed_random(0).uniform(size=base.shape) < VALID)
    known = base.masked_fill(held, torch.nan)
    return entry.dataset(Incomplete(known), HeldOut(known, base.masked_fill(~held, torch.nan)), HeldOut(base, test))


def _table(rows: NDArray[np.int64]) -> Tensor:
    """The ratings of all users, (users, items), NaN where there is none."""
    table = torch.full((USERS, ITEMS), torch.nan)
    user, item, rating = torch.from_numpy(rows[:, :3]).T
    table[user - 1, item - 1] = rating.float()
    return table


MOVIELENS = Entry(
    name="movielens-100k",
    kind="ratings",
    shape=(ITEMS,),
    sizes={"features": ITEMS, "ratings": STARS},
    counts=(USERS, USERS, USERS),
    source="GroupLens, MovieLens 100K, split u1, https://doi.org/10.1145/2827872 (for research; not to be passed on)",
    load=load,
    remote=Remote(
        folder="movielens-100k",
        files=(
            RemoteFile("u1.base", 1586544, "ce253ec86c448b44fb3ba9a30d12dcfc2e9210cbde71efada3730c22e9ac212a"),
            RemoteFile("u1.test", 392629, "18c6014a4b2c7324f250a63f8904a7b16b2b19f911129e346141507b0cbac950"),
        ),
    ),
)

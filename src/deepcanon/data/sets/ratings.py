"""Ratings of items by users with tastes: a planted matrix of low rank, of which most entries are missing."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import Incomplete
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random
from deepcanon.data.tables.rated import held_out

USERS, ITEMS = 1000, 100
TASTES = 3
"""The rank of the planted structure: users like an item as far as their taste and its kind agree."""
STARS = 5
NOISE = 0.5
RATED = 0.3
"""The share of its ratings that a user gives on average; popular items are rated more often than others."""


def draw_ratings(seed: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """What every user would give every item, 1 to 5, (users, items), and which of these ratings are given."""
    random = fixed_random(seed)
    tastes, kinds = random.standard_normal((USERS, TASTES)), random.standard_normal((ITEMS, TASTES))
    liked = tastes @ kinds.T / np.sqrt(TASTES)
    quality, mood = 0.5 * random.standard_normal(ITEMS), 0.4 * random.standard_normal((USERS, 1))
    opinion = 3.4 + liked + quality + mood + NOISE * random.standard_normal((USERS, ITEMS))
    popularity = random.uniform(0.3, 1.7, ITEMS) + 0.3 * quality
    given = random.uniform(size=(USERS, ITEMS)) < RATED * popularity
    return np.clip(np.round(opinion), 1, STARS), given


def load(entry: Entry) -> Dataset[Incomplete]:
    """All users in every split; held-out ratings are to be predicted from those of the training split."""
    ratings, given = draw_ratings(1)  # another seed than that by which ratings are held out
    return entry.dataset(*held_out(torch.from_numpy(np.where(given, ratings, np.nan)).float()))


RATINGS = Entry(
    name="ratings",
    kind="ratings",
    shape=(ITEMS,),
    sizes={"features": ITEMS, "ratings": STARS},
    counts=(USERS, USERS, USERS),
    source=f"drawn here: users with {TASTES} tastes rate items with {STARS} stars; a fifth of the ratings is held out",
    load=load,
)

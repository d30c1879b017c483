"""Time series of counts: hourly demand of many items, of very different sizes, with covariates known in advance."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import Series
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random
from deepcanon.data.time_series import split_by_time

ITEMS, DAYS, HOURS = 80, 21, 24
GIVEN, STEPS, TESTS = 48, 24, 3
SHAPE = 0.05
"""The shape of the negative binomial distribution: the variance is mean + SHAPE mean²."""
EVERY = 17
"""The hours from one window of the training to the next; no divisor of a day, so that windows begin at any hour."""

Values = NDArray[np.float64]


def demand(items: int, days: int, seed: int) -> tuple[Series, Tensor]:
    """Whole series of so many days, and the means of which they are negative binomial counts.

    The mean is the item's level, from 1 to 1000, times a profile of the day with one or two peaks at the item's own
    hours, times 0.6 on Saturdays and Sundays, times 2.5 while the item is on offer, times a level that drifts from hour
    to hour.
    """
    random = fixed_random(seed)
    hour = np.arange(days * HOURS)
    level = np.exp(random.uniform(0, np.log(1000), (items, 1)))
    peak, second = random.uniform(7, 19, (items, 1)), random.uniform(0, 1, (items, 1))
    angle = 2 * np.pi * (hour - peak) / HOURS
    profile = np.exp(0.8 * np.cos(angle) + 0.5 * second * np.cos(2 * angle)) / 1.3
    weekend = (hour // HOURS % 7 >= 5).astype(float)
    offer = _offers(random, items, days)
    drift = np.exp(0.3 * _autoregression(random, items, len(hour), memory=0.97))
    mean = level * profile * (1 - 0.4 * weekend) * (1 + 1.5 * offer) * drift
    counts = random.negative_binomial(1 / SHAPE, 1 / (1 + SHAPE * mean))
    clock = 2 * np.pi * hour / HOURS
    shared = np.stack([np.sin(clock), np.cos(clock), weekend], 1)
    covariates = np.concatenate([np.broadcast_to(shared, (items, *shared.shape)), offer[..., None]], 2)
    full = torch.full((items,), len(hour))
    return Series(
        torch.from_numpy(counts[..., None]).float(),
        lengths=full,
        origins=torch.full_like(full, GIVEN),
        covariates=torch.from_numpy(covariates).float(),
        statics=torch.arange(items).unsqueeze(1),
        times=torch.from_numpy(np.broadcast_to(hour, (items, len(hour))).copy()),
    ), torch.from_numpy(mean)


def load(entry: Entry) -> Dataset[Series]:
    """Windows of two days that are given and one that is predicted, split by time.

    The last three days are predicted in the test and the one before them in the validation; training windows end
    before these.
    """
    whole, _ = demand(ITEMS, DAYS, seed=0)
    return entry.dataset(*split_by_time(whole, GIVEN, STEPS, EVERY, tests=TESTS))


def _offers(random: np.random.RandomState, items: int, days: int) -> Values:
    """1 on the days on which an item is on offer, one in eight, else 0; (items, hours)."""
    return np.repeat(random.uniform(size=(items, days)) < 1 / 8, HOURS, 1).astype(float)


def _autoregression(random: np.random.RandomState, rows: int, steps: int, memory: float) -> Values:
    """Stationary autoregressions of order 1 with unit variance, (rows, steps)."""
    noise = random.standard_normal((rows, steps))
    values = noise.copy()
    for step in range(1, steps):
        values[:, step] = memory * values[:, step - 1] + np.sqrt(1 - memory**2) * noise[:, step]
    return values


SERIES = Entry(
    name="series",
    kind="series",
    shape=(GIVEN + STEPS, 1),
    sizes={"features": 1, "covariates": 4, "statics": ITEMS},
    counts=(1600, 80, 240),
    source=f"drawn here: hourly negative binomial counts of {ITEMS} items over {DAYS} days",
    load=load,
)

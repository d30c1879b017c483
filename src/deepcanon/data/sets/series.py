"""Time series of counts: hourly demand of many items, of very different sizes, with covariates known in advance."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.distributions import NegativeBinomial

from deepcanon.core import Series, drawing_from
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random
from deepcanon.data.time_series import split_by_time

ITEMS, DAYS, HOURS = 80, 56, 24
GIVEN, STEPS, TESTS = 48, 24, 3
SHAPE = 0.05
"""The shape of the negative binomial distribution: the variance is mean + SHAPE mean²."""
EVERY = 17
"""The hours from one window of the training to the next; no divisor of a day, so that windows begin at any hour."""

MEMORY, WIDTH = 0.97, 0.3
"""Of the drift from one hour to the next, and how far it moves the logarithm of the mean."""
NODES, FARTHEST = 201, 5.0
"""The values of the drift at which its density is computed lie between minus and plus the last."""

Values = NDArray[np.float64]


class Demand(NamedTuple):
    """Whole series, and what is known of their law.

    ``expected`` (items, hours) times the exponential of the drift is the mean of the counts.
    """

    series: Series
    expected: Values
    drift: Values

    @property
    def mean(self) -> Values:
        return self.expected * np.exp(WIDTH * self.drift)


def demand(items: int, days: int, seed: int) -> Demand:
    """Series of so many days, negative binomial counts with a mean that is known.

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
    expected = level * profile * (1 - 0.4 * weekend) * (1 + 1.5 * offer)
    drift = _autoregression(random, items, len(hour), MEMORY)
    mean = expected * np.exp(WIDTH * drift)
    counts = random.negative_binomial(1 / SHAPE, 1 / (1 + SHAPE * mean))
    clock = 2 * np.pi * hour / HOURS
    shared = np.stack([np.sin(clock), np.cos(clock), weekend], 1)
    covariates = np.concatenate([np.broadcast_to(shared, (items, *shared.shape)), offer[..., None]], 2)
    full = torch.full((items,), len(hour))
    series = Series(
        torch.from_numpy(counts[..., None]).float(),
        lengths=full,
        origins=torch.full_like(full, GIVEN),
        covariates=torch.from_numpy(covariates).float(),
        statics=torch.arange(items).unsqueeze(1),
        times=torch.from_numpy(np.broadcast_to(hour, (items, len(hour))).copy()),
    )
    return Demand(series, expected, drift)


def best_paths(known: Demand, origin: int, steps: int, samples: int, generator: Generator) -> Tensor:
    r"""Sample paths (samples, items, steps) by the law itself: no forecast from this origin has a lower expected CRPS.

    All but the drift is known. The drift given all counts before the origin has the density p, by Bayes' rule and the
    law of its next step:

    .. math:: p(d_{t+1} \mid x_{\le t}) \propto \int p(d_{t+1} \mid d_t)\, p(x_t \mid d_t)\, p(d_t \mid x_{<t})\, dd_t

    It is computed on a grid, from which the paths are drawn.
    """
    grid = torch.linspace(-FARTHEST, FARTHEST, NODES, dtype=torch.float64)
    noise = math.sqrt(1 - MEMORY**2)
    moves = (-0.5 * ((grid - MEMORY * grid.unsqueeze(1)) / noise).square()).softmax(1)  # from row to column
    counts, expected = known.series.x[..., 0].double(), torch.from_numpy(known.expected)
    density = (-0.5 * grid.square()).softmax(0).expand(len(counts), -1)
    for step in range(origin):
        here = _counts(expected[:, step : step + 1] * (WIDTH * grid).exp())
        log_p = here.log_prob(counts[:, step : step + 1]) + density.log()
        density = log_p.softmax(1) @ moves
    place = density.multinomial(samples, replacement=True, generator=generator).T  # (samples, items)
    drift = grid[place] + (torch.rand(place.shape, generator=generator, dtype=torch.float64) - 0.5) * (
        grid[1] - grid[0]
    )
    drawn = []
    for step in range(origin, origin + steps):
        with drawing_from(generator):
            drawn.append(_counts(expected[:, step] * (WIDTH * drift).exp()).sample())
        drift = MEMORY * drift + noise * torch.randn(drift.shape, generator=generator, dtype=torch.float64)
    return torch.stack(drawn, 2)


def load(entry: Entry) -> Dataset[Series]:
    """Windows of two days that are given and one that is predicted, split by time.

    The last three days are predicted in the test and the one before them in the validation; training windows end
    before these.
    """
    whole = demand(ITEMS, DAYS, seed=0).series
    return entry.dataset(*split_by_time(whole, GIVEN, STEPS, EVERY, tests=TESTS, valids=TESTS))


def _counts(mean: Tensor) -> NegativeBinomial:
    return NegativeBinomial(1 / SHAPE, logits=(SHAPE * mean).log(), validate_args=False)


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
    counts=(5360, 240, 240),
    source=f"drawn here: hourly negative binomial counts of {ITEMS} items over {DAYS} days",
    load=load,
)

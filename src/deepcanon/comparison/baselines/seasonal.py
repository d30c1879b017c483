"""Baselines of time series: the last season again, and exponential smoothing, each series by itself.

References:
    | Forecasting with Exponential Smoothing (Hyndman et al., 2008), https://doi.org/10.1007/978-3-540-71918-2
    | Forecasting: Principles and Practice (Hyndman and Athanasopoulos, 2021), https://otexts.com/fpp3
"""

from __future__ import annotations

from collections.abc import Generator as Parts
from dataclasses import dataclass, fields
from itertools import product
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.core import Series
from deepcanon.core.padding import valid_positions
from deepcanon.core.plural import counted
from deepcanon.data import Dataset

LEVELS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 0.99)
TRENDS = (None, 0.01, 0.05, 0.2)
SEASONS = (0.0, 0.05, 0.15, 0.35, 0.7)
"""The smoothing parameters that are tried; without a trend it is None."""
LONGEST = 400
"""Seasons of more steps are not looked for."""

Values = NDArray[np.float64]
Whole = NDArray[np.int64]


class SeasonalNaive(BaselineMethod):
    """The last season again, with errors as large as those from season to season before.

    The season is the lag, from 1 on, that forecasts validation data best; with 1 the last value is repeated.
    """

    name = "seasonal_naive"
    label = "seasonal naive"

    def __init__(self, season: int) -> None:
        self.season = season

    @property
    def choice(self) -> str:
        return f"a season of {counted(self.season, 'step')}"

    @classmethod
    def suits(cls, data: Dataset[Any]) -> bool:
        return isinstance(data.train, Series)

    @classmethod
    def fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        yield cls(best_season(data.train if data.valid is None else data.valid))

    def forecast(self, past: Series, steps: int, *, samples: int = 100, generator: Generator | None = None) -> Tensor:
        """Sample paths of the steps that follow, (samples, B, steps, features)."""
        values, ends = _flat(past)
        center = again(values, ends, self.season, steps)
        spread = season_errors(values, ends, self.season)[:, None]
        grown = spread * np.sqrt(np.arange(steps) // self.season + 1)  # the errors of seasons add up
        return _shaped(center + grown * _noise((samples, len(values), steps), generator), past)


class ExponentialSmoothing(SeasonalNaive):
    r"""Exponential smoothing of Holt and Winters with an additive season, and a trend where it pays.

    .. math:: \hat x_t = l_{t-1} + b_{t-1} + s_{t-m}, \qquad e_t = x_t - \hat x_t

    .. math:: l_t = l_{t-1} + b_{t-1} + \alpha e_t, \qquad b_t = b_{t-1} + \alpha \beta e_t, \qquad
              s_t = s_{t-m} + \gamma e_t

    The smoothing parameters of each series have the lowest AIC of its errors one step ahead, among those tried; the
    season is that of the seasonal naive forecast, and left out of a series of fewer than two. Paths are drawn by the
    same equations, with errors of the variance so found.
    """

    name = "exponential_smoothing"
    label = "exponential smoothing"

    def forecast(self, past: Series, steps: int, *, samples: int = 100, generator: Generator | None = None) -> Tensor:
        """Sample paths of the steps that follow, (samples, B, steps, features)."""
        values, ends = _flat(past)
        noise = _noise((samples, len(values), steps), generator)
        found = np.empty_like(noise)
        seasonal = (ends >= 2 * self.season) & (self.season > 1)
        for rows, season in ((seasonal, self.season), (~seasonal, 1)):
            if rows.any():
                found[:, rows] = best_state(values[rows], ends[rows], season).paths(noise[:, rows])
        return _shaped(found, past)


@dataclass(frozen=True, eq=False)
class State:
    """The state of each of N series after its last step, and the smoothing parameters that it goes on with.

    ``terms`` (N, m) are the seasonal terms of the next m steps, ``spread`` the standard deviation of the errors one
    step ahead; all others have a number for each series.
    """

    level: Values
    trend: Values
    terms: Values
    alpha: Values
    beta: Values
    gamma: Values
    spread: Values

    def paths(self, noise: Values) -> Values:
        """Paths (samples, N, steps) for standard normal noise of that shape."""
        level, trend = (np.repeat(each[None], len(noise), 0) for each in (self.level, self.trend))
        terms = np.repeat(self.terms[None], len(noise), 0)
        found = np.empty_like(noise)
        for step in range(noise.shape[2]):
            place = step % terms.shape[2]
            error = self.spread * noise[:, :, step]
            found[:, :, step] = level + trend + terms[:, :, place] + error
            level += trend + self.alpha * error
            trend += self.alpha * self.beta * error
            terms[:, :, place] += self.gamma * error
        return found


def best_season(series: Series) -> int:
    """The lag that forecasts best what follows the origins of these series, by the mean absolute error."""
    steps = int((series.lengths - series.origins).min())
    values, origins = _flat(series.past)
    truth = np.stack([_flat(series)[0][np.arange(len(values)), origins + step] for step in range(steps)], 1)
    most = max(1, min(LONGEST, int(origins.min()) // 2))
    errors = [np.abs(again(values, origins, lag, steps) - truth).mean() for lag in range(1, most + 1)]
    return int(np.argmin(errors)) + 1


def again(values: Values, ends: Whole, season: int, steps: int) -> Values:
    """The last season before the end of each row, again and again, (N, steps); of a shorter row all of it."""
    own = np.minimum(season, ends)[:, None]
    return np.take_along_axis(values, ends[:, None] - own + np.arange(steps) % own, 1)


def season_errors(values: Values, ends: Whole, season: int) -> Values:
    """The root of the mean squared difference of values a season apart, of each row; 0 if it has no two."""
    gaps = values[:, season:] - values[:, :-season]
    there = np.arange(season, values.shape[1]) < ends[:, None]
    return np.asarray(np.sqrt((gaps**2 * there).sum(1) / np.maximum(there.sum(1), 1)))


def best_state(values: Values, ends: Whole, season: int) -> State:
    """The state of each series by the smoothing parameters with the lowest AIC of its errors."""
    tried = list(product(LEVELS, TRENDS, SEASONS if season > 1 else (0.0,)))
    states = [smoothed(values, ends, season, *parameters) for parameters in tried]
    count = np.maximum(ends - season, 1)
    variances = np.maximum(np.stack([state.spread for state in states]) ** 2, np.finfo(np.float64).tiny)
    extra = np.array([0 if beta is None else 2 for _, beta, _ in tried])  # a trend and its smoothing parameter
    best = (count * np.log(variances) + 2 * extra[:, None]).argmin(0)
    rows = np.arange(len(values))
    return State(*(np.stack([getattr(state, part.name) for state in states])[best, rows] for part in fields(State)))


def smoothed(values: Values, ends: Whole, season: int, alpha: float, beta: float | None, gamma: float) -> State:
    """The state of each series after its end; the first season gives the first state, and errors begin after it.

    Of a season of one step there is none: the first value gives the level.
    """
    first = values[:, :season]
    trend = np.zeros(len(values))
    if beta is not None:
        later = np.arange(season, 2 * season)
        there = later < np.minimum(ends, values.shape[1])[:, None]
        second = values[:, season : 2 * season]
        there = there[:, : second.shape[1]]
        rise = (second - first[:, : second.shape[1]]) * there
        trend = rise.sum(1) / np.maximum(there.sum(1), 1) / season
    ramp = trend[:, None] * (np.arange(season) - (season - 1) / 2)
    level = first.mean(1) + trend * (season - 1) / 2
    terms = first - first.mean(1, keepdims=True) - ramp
    squares = np.zeros(len(values))
    for step in range(season, values.shape[1]):
        live, place = step < ends, step % season
        error = np.where(live, values[:, step] - level - trend - terms[:, place], 0.0)
        level = np.where(live, level + trend + alpha * error, level)
        trend = trend + alpha * (beta or 0.0) * error
        terms[:, place] += gamma * error
        squares += error**2
    ahead = np.take_along_axis(terms, (ends[:, None] + np.arange(season)) % season, 1)
    spread = np.sqrt(squares / np.maximum(ends - season, 1))
    own = (np.full(len(values), each) for each in (alpha, beta or 0.0, gamma))
    return State(*(level, trend, ahead, *own, spread))


def _flat(series: Series) -> tuple[Values, Whole]:
    """Each feature of each series as a row, (B * features, T), and how many values of it count; the padding is 0."""
    lengths = series.lengths.cpu()
    inside = valid_positions(series.x.cpu(), lengths).unsqueeze(2)
    rows = series.x.cpu().double().masked_fill(~inside, 0.0).transpose(1, 2)
    return rows.flatten(0, 1).numpy(), lengths.repeat_interleave(rows.shape[1]).numpy()


def _shaped(paths: Values, past: Series) -> Tensor:
    """Paths (samples, B * features, steps) as those of series, (samples, B, steps, features)."""
    samples, _, steps = paths.shape
    shaped = torch.from_numpy(paths).view(samples, len(past), -1, steps).transpose(2, 3)
    return shaped.to(past.x.dtype)


def _noise(shape: tuple[int, ...], generator: Generator | None) -> Values:
    drawn: Values = torch.randn(shape, generator=generator, dtype=torch.float64).numpy()
    return drawn

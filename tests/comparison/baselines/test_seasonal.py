"""Baselines of time series: closed forms of smoothing, and what repeats itself is forecast without an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from deepcanon.comparison.baselines.seasonal import (
    ExponentialSmoothing,
    SeasonalNaive,
    best_season,
    best_state,
    smoothed,
)
from deepcanon.core import Series
from deepcanon.data import Dataset


def series(values: Any, origins: int, lengths: Any = None) -> Series:
    x = torch.as_tensor(np.asarray(values), dtype=torch.float64).unsqueeze(2)
    full = torch.full((len(x),), x.shape[1]) if lengths is None else torch.tensor(lengths)
    return Series(x, full, torch.full((len(x),), origins))


def test_simple_smoothing_is_the_weighted_mean_of_its_closed_form() -> None:
    r"""The level is (1 - a)^(n - 1) x_1 + sum of a (1 - a)^(n - t) x_t (Hyndman et al., 2008, chapter 2)."""
    values = np.random.default_rng(0).normal(size=(3, 20))
    alpha = 0.3
    state = smoothed(values, np.full(3, 20), 1, alpha, None, 0.0)
    weights = alpha * (1 - alpha) ** np.arange(19, -1, -1)
    weights[0] = (1 - alpha) ** 19
    assert state.level == pytest.approx(values @ weights)
    assert not state.trend.any()
    assert not state.terms.any()


def test_the_spread_of_paths_is_that_of_the_closed_form() -> None:
    """Of ETS(A, A, A): sigma² (1 + sum of c_j²), c_j = alpha + alpha beta j + gamma [j is a multiple of m]."""
    values = np.random.default_rng(0).normal(size=(1, 24)) + np.tile([0.0, 4.0, 1.0], 8)
    alpha, beta, gamma, steps = 0.4, 0.3, 0.2, 7
    state = smoothed(values, np.array([24]), 3, alpha, beta, gamma)
    j = np.arange(1, steps)
    c = alpha + alpha * beta * j + gamma * (j % 3 == 0)
    expected = state.spread[0] * np.sqrt(1 + np.concatenate([[0.0], np.cumsum(c**2)]))
    paths = state.paths(np.random.default_rng(1).normal(size=(40_000, 1, steps)))[:, 0]
    assert paths.std(0) == pytest.approx(expected, rel=0.02)
    center = state.paths(np.zeros((1, 1, steps)))[0, 0]
    assert paths.mean(0) == pytest.approx(center, abs=0.04)
    assert center[3:6] - center[:3] == pytest.approx(np.full(3, 3 * state.trend[0]))  # a season on, the trend alone


@pytest.mark.parametrize("method", [SeasonalNaive, ExponentialSmoothing])
def test_what_repeats_itself_is_forecast_without_an_error(method: type[SeasonalNaive]) -> None:
    season = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    values = np.stack([np.tile(season, 6), 2 * np.tile(season, 6) + 7])
    data: Any = Dataset("repeated", "series", series(values, 18), valid=series(values, 18))
    fitted = method.fit(data, 0)
    assert fitted.season == 5
    assert fitted.choice == "a season of 5 steps"
    past = series(values, 18).past  # amid a season
    paths = fitted.forecast(past, 10, samples=3, generator=torch.Generator().manual_seed(0))
    assert paths.shape == (3, 2, 10, 1)
    assert torch.allclose(paths, torch.from_numpy(values[:, 18:28])[None, :, :, None].expand(3, -1, -1, -1))


def test_a_straight_line_is_continued_by_its_trend() -> None:
    values = 2.0 + 0.5 * np.arange(30.0)[None]
    state = best_state(values, np.array([20]), 1)
    assert state.paths(np.zeros((1, 1, 10)))[0, 0] == pytest.approx(values[0, 20:], abs=1e-6)


def test_white_noise_has_no_trend_and_little_smoothing() -> None:
    values = np.random.default_rng(0).normal(size=(200, 100))
    state = best_state(values, np.full(200, 100), 1)
    assert (state.beta == 0).mean() > 0.7
    assert np.median(state.alpha) <= 0.1


def test_rows_end_where_their_past_does_and_what_comes_after_is_not_read() -> None:
    values = np.random.default_rng(0).normal(size=(2, 30))
    short = series(values, 12, lengths=[30, 18])
    changed = values.copy()
    changed[:, 12:] = np.nan
    for method in (SeasonalNaive(4), ExponentialSmoothing(4)):
        one, other = (
            method.forecast(given.past, 6, samples=5, generator=torch.Generator().manual_seed(0))
            for given in (short, series(changed, 12, lengths=[30, 18]))
        )
        assert torch.equal(one, other)
        assert bool(one.isfinite().all())
    early = ExponentialSmoothing(4).forecast(series(values, 3).past, 6, samples=2)  # no two seasons yet
    assert bool(early.isfinite().all())


def test_the_season_is_found_beneath_noise() -> None:
    random = np.random.default_rng(0)
    values = np.tile(random.normal(size=(30, 7)) * 3, (1, 10)) + random.normal(size=(30, 70)) * 0.5
    assert best_season(series(values, 56)) % 7 == 0


def test_the_errors_of_the_naive_forecast_add_up_from_season_to_season() -> None:
    """Of a random walk of unit steps the last value is off by the root of the number of steps to come."""
    walk = np.random.default_rng(0).normal(size=(1, 4000)).cumsum(1)
    paths = SeasonalNaive(1).forecast(series(walk, 4000), 9, samples=20_000)[:, 0, :, 0]
    assert paths.std(0).tolist() == pytest.approx(np.sqrt(np.arange(1, 10)), rel=0.05)
    assert paths.mean(0).tolist() == pytest.approx(np.full(9, walk[0, -1]), abs=0.1)
    weekly = SeasonalNaive(3).forecast(series(walk, 4000), 9, samples=20_000)[:, 0, :, 0].std(0)
    assert weekly.tolist() == pytest.approx(np.sqrt(3 * np.repeat([1, 2, 3], 3)), rel=0.05)

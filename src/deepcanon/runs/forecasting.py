"""Forecasts of a run's model: sample paths, and their quantiles as the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from deepcanon.core import Series, UsageError, Videos, eval_mode
from deepcanon.core.series import steps_from
from deepcanon.data import Batches

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
ROWS_AT_ONCE = 64
MOST_FANS = 12
"""The number of series in a picture of forecasts."""


def sample_paths(model: Any, series: Series | Videos, steps: int | None, samples: int, seed: int) -> Tensor:
    """Sample paths from the forecast origin of each series or video on, (samples, B, steps, ...).

    Without ``steps`` there are as many as every series still has after its origin.
    """
    if steps is None and (steps := int((series.lengths - series.origins).min())) < 1:
        raise UsageError(f"there are {series.noun} that end at their forecast origin: say how many steps to forecast")
    generator = Generator().manual_seed(seed)
    with eval_mode(model):
        parts = [
            model.forecast(part.past, steps, samples=samples, generator=generator)
            for part in Batches(series, ROWS_AT_ONCE)
        ]
    return torch.cat(parts, 1)


def columns_of(paths: Tensor, series: Series | Videos) -> dict[str, list[Any]]:
    """The table of forecasts of series, or of videos, whose features are their pixels."""
    if isinstance(series, Series):
        return quantile_columns(paths, series)
    names = {"series": "video", "feature": "pixel"}
    pixels = Series(series.x.flatten(2), series.lengths, series.origins)
    return {names.get(name, name): column for name, column in quantile_columns(paths.flatten(3), pixels).items()}


def quantile_columns(paths: Tensor, series: Series, levels: Sequence[float] = LEVELS) -> dict[str, list[Any]]:
    """One row for each series, step and feature: the mean and the quantiles of its paths, and the truth where known.

    Where it is known when the steps of the series are, there is a column ``time``, too.
    """
    _, rows, steps, features = paths.shape
    step = torch.arange(1, steps + 1)
    ahead = series.origins.unsqueeze(1) + step - 1  # (B, steps)
    truth = steps_from(series.x, series.origins, steps)
    known = (ahead < series.lengths.unsqueeze(1)).unsqueeze(2).expand_as(truth)
    shape = (rows, steps, features)
    columns: dict[str, list[Any]] = {
        "series": torch.arange(rows).view(-1, 1, 1).expand(shape).flatten().tolist(),
        "step": step.view(1, -1, 1).expand(shape).flatten().tolist(),
    }
    if series.times is not None:
        columns["time"] = (
            _times_ahead(series.times, series.lengths, ahead).unsqueeze(2).expand(shape).flatten().tolist()
        )
    if features > 1:
        columns["feature"] = torch.arange(1, features + 1).expand(shape).flatten().tolist()
    columns["mean"] = paths.mean(0).flatten().tolist()
    for level in levels:
        columns[f"q{level:g}"] = paths.quantile(level, 0).flatten().tolist()
    pairs = zip(truth.flatten().tolist(), known.flatten().tolist(), strict=True)
    return {**columns, "truth": [value if there else None for value, there in pairs]}


def _times_ahead(times: Tensor, lengths: Tensor, ahead: Tensor) -> Tensor:
    """The times of the steps at these positions, (B, steps); those after the end are as far apart as the last two."""
    last = (lengths - 1).unsqueeze(1)
    end = times.gather(1, last)
    stride = end - times.gather(1, (last - 1).clamp_min(0))
    return torch.where(ahead > last, end + (ahead - last) * stride, times.gather(1, ahead.minimum(last)))


def draw_forecasts(paths: Tensor, series: Series | Videos, path: Path, title: str, limits: tuple[float, float]) -> None:
    """Write a picture of the forecasts of some series or videos, spread evenly over all of them.

    ``limits`` are the values of a black and of a white pixel.
    """
    from deepcanon.pictures.forecasts import forecast_fans  # matplotlib is slow to import
    from deepcanon.pictures.style import save
    from deepcanon.pictures.videos import CONTINUED, continuations

    count = min(MOST_FANS if isinstance(series, Series) else CONTINUED, len(series))
    spread = torch.arange(count) * len(series) // count
    paths, some = paths[:, spread], series.select(spread)
    drawn = forecast_fans(paths, some, title) if isinstance(some, Series) else continuations(paths, some, title, limits)
    save(drawn, path)

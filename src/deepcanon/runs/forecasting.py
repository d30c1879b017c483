"""Forecasts of a run's model: sample paths, and their quantiles as the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor

from deepcanon.core import AnyBatch, Model, Series, UsageError, Videos, eval_mode
from deepcanon.core.series import steps_from
from deepcanon.core.series_legend import SeriesLegend
from deepcanon.data import Batches
from deepcanon.data.transforms.forms import black_and_white
from deepcanon.runs.data import new_rows
from deepcanon.runs.folder import RunFolder
from deepcanon.runs.predict import write_csv

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
ROWS_AT_ONCE = 64
MOST_FANS = 12
"""The number of series in a picture of forecasts."""


def ahead(run: RunFolder, model: Model[Any], data: str | Path | AnyBatch) -> AnyBatch:
    """The series or videos to be continued: those of a file after their end, of data known by name the test split."""
    return data if isinstance(data, AnyBatch) else new_rows(run, model, str(data), labeled=False)


def reaching(
    series: AnyBatch, steps: int | None, preprocessing: Mapping[str, Any]
) -> tuple[Series | Videos, int | None]:
    """The series with the covariates of the steps to come, by default those of the horizon of the training."""
    if not isinstance(series, Series | Videos):
        raise UsageError(f"forecasts are of time series or videos; these data are {series.noun}")
    horizon = preprocessing.get("series", {}).get("horizon") if steps is None else steps
    if isinstance(series, Videos) or series.legend is None or horizon is None:
        return series, steps
    return series.legend.reaching(series, horizon), horizon


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

    Where it is known when the steps of the series are, there is a column ``time``, too. Series from a file have their
    names, their times and the units of the file.
    """
    _, rows, steps, features = paths.shape
    step = torch.arange(1, steps + 1)
    places = series.origins.unsqueeze(1) + step - 1  # (B, steps)
    if series.legend is not None:
        paths, series = series.legend.in_units(paths, series), series.legend.as_given(series)
    truth = steps_from(series.x, series.origins, steps)
    known = (places < series.lengths.unsqueeze(1)).unsqueeze(2) & ~truth.isnan()
    shape = (rows, steps, features)
    columns: dict[str, list[Any]] = {
        "series": torch.arange(rows).view(-1, 1, 1).expand(shape).flatten().tolist(),
        "step": step.view(1, -1, 1).expand(shape).flatten().tolist(),
    }
    if series.times is not None:
        times = _times_ahead(series.times, series.lengths, places, None if series.legend is None else 1)
        columns["time"] = times.unsqueeze(2).expand(shape).flatten().tolist()
    if features > 1:
        columns["feature"] = torch.arange(1, features + 1).expand(shape).flatten().tolist()
    columns["mean"] = paths.mean(0).flatten().tolist()
    for level in levels:
        columns[f"q{level:g}"] = paths.quantile(level, 0).flatten().tolist()
    pairs = zip(truth.flatten().tolist(), known.flatten().tolist(), strict=True)
    columns["truth"] = [value if there else None for value, there in pairs]
    return columns if series.legend is None else _named(columns, series, series.legend)


def _named(columns: dict[str, list[Any]], series: Series, legend: SeriesLegend) -> dict[str, list[Any]]:
    """The columns with the names, the targets and the times of a file, under the names that it has for them.

    After the end of the file there is no truth.
    """
    names = legend.names_of(series)
    words = {
        "series": [names[row] for row in columns["series"]],
        "time": legend.texts(columns["time"]),
        "feature": [legend.features[place - 1] for place in columns.get("feature", ())],
    }
    own: dict[str, str] = {}
    for name, word in (("series", legend.column), ("time", legend.time), ("feature", "target")):
        if name in columns and word not in columns and word not in own.values():
            own[name] = word
    there = {name: column for name, column in columns.items() if any(value is not None for value in column)}
    return {own.get(name, name): words.get(name, column) for name, column in there.items()}


def _times_ahead(times: Tensor, lengths: Tensor, places: Tensor, apart: int | None) -> Tensor:
    """The times of the steps at these positions, (B, steps).

    Those after the end are so far ``apart``, or as far as the last two.
    """
    last = (lengths - 1).unsqueeze(1)
    end = times.gather(1, last)
    stride = end - times.gather(1, (last - 1).clamp_min(0)) if apart is None else apart
    return torch.where(places > last, end + (places - last) * stride, times.gather(1, places.minimum(last)))


def write_forecasts(
    path: Path, paths: Tensor, series: Series | Videos, title: str, preprocessing: Mapping[str, Any]
) -> None:
    """Write the table of all forecasts, or a picture of some, spread evenly over all series or videos."""
    if path.suffix.lower() == ".csv":
        write_csv(path, columns_of(paths, series))
        return
    from deepcanon.pictures.forecasts import forecast_fans  # matplotlib is slow to import
    from deepcanon.pictures.style import save
    from deepcanon.pictures.videos import CONTINUED, continuations

    count = min(MOST_FANS if isinstance(series, Series) else CONTINUED, len(series))
    spread = torch.arange(count) * len(series) // count
    paths, some, limits = paths[:, spread], series.select(spread), black_and_white(preprocessing)
    drawn = forecast_fans(paths, some, title) if isinstance(some, Series) else continuations(paths, some, title, limits)
    save(drawn, path)

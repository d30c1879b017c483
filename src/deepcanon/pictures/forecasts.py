"""Pictures of forecasts: the past of a series, a fan of quantiles of what may come, and what came."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateFormatter, AutoDateLocator
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Generator, Tensor

from deepcanon.core import Series
from deepcanon.core.plural import counted
from deepcanon.core.roles import Forecasts
from deepcanon.core.series import steps_from
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, new_figure, shared_legend

FANS = ((0.05, 0.95, "#d5e7f3"), (0.1, 0.9, "#aed1e8"), (0.25, 0.75, "#7ab3d8"))
"""The intervals that are shaded, from the widest on, with their shades of the palette's blue."""


PATHS = 200


def forecast_picture(model: Forecasts, series: Series, title: str, generator: Generator | None = None) -> Figure:
    """The fans of a model's forecasts from the origins of the series on, as far as the longest of them is known."""
    steps = int((series.lengths - series.origins).max())
    shown = series.select((series.lengths - series.origins == steps).nonzero().squeeze(1))
    paths = model.forecast(shown.past, steps, samples=PATHS, generator=generator)
    return forecast_fans(paths.cpu(), shown.to("cpu"), f"{title}, {counted(steps, 'step')}")


def forecast_fans(paths: Tensor, series: Series, title: str = "", feature: int = 0) -> Figure:
    """One panel for each series: its past, the intervals and the median of sample paths, and what came, if known.

    ``paths`` are (samples, B, steps, features) and begin at the origins of the series. Those from a file have its
    names, times and units.
    """
    if series.legend is not None:
        paths, series = series.legend.in_units(paths, series), series.legend.as_given(series)
    columns = 2 if len(series) > 1 else 1
    lines = math.ceil(len(series) / columns)
    figure = new_figure(5.4 * columns, 2.4 * lines + 0.7, title)
    for row in range(len(series)):
        axes = figure.add_subplot(lines, columns, row + 1)
        _draw(axes, paths[:, row, :, feature], series.select(torch.tensor([row])), feature)
    shared_legend(figure, figure.axes[0])
    return figure


def _draw(axes: Axes, paths: Tensor, series: Series, feature: int) -> None:
    origin, end, steps = int(series.origins), int(series.lengths), paths.shape[1]
    values, times = series.x[0, :, feature], _times(series, origin + steps)
    ahead = times[origin : origin + steps]
    for low, high, shade in FANS:
        least, most = (paths.double().quantile(level, 0) for level in (low, high))
        axes.fill_between(ahead, least, most, color=shade, linewidth=0, label=f"{high - low:.0%}")
    axes.plot(ahead, paths.double().quantile(0.5, 0), color=PALETTE[0], linewidth=1.8, label="median")
    axes.plot(times[:origin], values[:origin], color=MUTED, linewidth=1.2, label="past")
    known = min(end, origin + steps)
    if known > origin:
        since = max(origin - 1, 0)  # where the past ends, so that no step is left out between them
        axes.plot(times[since:known], values[since:known], color=INK, linewidth=1.2, label="truth")
    axes.axvline(times[origin], color=MUTED, linewidth=0.8, linestyle=":")
    dress(axes, *_words(series, feature))
    if isinstance(times[origin], datetime):
        locator = AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(AutoDateFormatter(locator))  # type: ignore[no-untyped-call]
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _words(series: Series, feature: int) -> tuple[str, str, str]:
    """The title of the panel of a series, and what its axes show."""
    if series.legend is not None:
        return series.legend.names_of(series)[0], series.legend.time, series.legend.features[feature]
    name = "" if series.statics is None else f"series {', '.join(map(str, series.statics[0].tolist()))}"
    return name, "step" if series.times is None else "time", ""


def _times(series: Series, count: int) -> list[Any]:
    """The times of so many steps, or their dates; beyond the known ones they go on at the same pace."""
    if series.times is not None and series.legend is not None:
        first = int(series.times[0, 0])
        return [series.legend.calendar.at(first + step) for step in range(max(count, int(series.lengths)))]
    if series.times is None:
        return [float(step) for step in range(count)]
    last = int(series.lengths) - 1
    known = steps_from(series.times, torch.zeros_like(series.lengths), last + 1)[0].double().tolist()
    pace = known[-1] - known[-2] if len(known) > 1 else 1.0
    return [known[step] if step <= last else known[-1] + pace * (step - last) for step in range(max(count, last + 1))]

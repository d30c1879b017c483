"""Learning curves of a training: loss terms, validation metrics, learning rate and gradient norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from deepcanon.pictures.style import INK, MUTED, PALETTE, colors, dress, legend, new_figure

Record = Mapping[str, Any]
Series = tuple[NDArray[np.float64], NDArray[np.float64]]

RAW_POINTS = 2000
WIDE_RANGE = 20.0
SHORT = {"mse", "rmse", "mae", "smape", "auc"}
"""Abbreviations that have vowels."""
DOTS = 100
"""So many measurements are dots on their line; more would be a thick band."""


def curves(history: Sequence[Record], title: str = "", unit: str = "nats per example", summed: bool = True) -> Figure:
    """Learning curves: panels of the training loss, every validation metric, the learning rate and the gradient norm.

    ``history`` holds the records of a run's log; ``unit`` is that of the loss. The sum of the terms is drawn unless
    ``summed`` says that it has no meaning, as with the two players of a GAN, or terms of one name come from several
    turns (``member-2.nll``): then each turn has a loss of its own.
    """
    steps = [record for record in history if record["kind"] == "step"]
    epochs = [record for record in history if record["kind"] == "epoch"]
    terms = {name: _series(steps, _of("terms", name)) for name in _names(steps, "terms")}
    valid = {name: _series(epochs, _of("valid", name)) for name in _names(epochs, "valid")}
    panels: list[Callable[[Axes], None]] = []
    if terms:
        one_loss = summed and len(terms) > 1 and not any("." in name for name in terms)
        total = {"loss": _series(steps, lambda record: record.get("loss"))} if one_loss else {}
        panels.append(partial(_draw_loss, shown=terms | total, valid=valid, unit=unit))
    metrics = {name: series for name, series in valid.items() if name not in {*terms, "loss"}}
    panels += [partial(_draw_metric, name=name, series=series) for name, series in metrics.items()]
    rate = _series(steps, lambda record: record.get("lr"))
    if len(rate[0]) > 1:
        panels.append(partial(_draw_rate, series=rate))
    norm = _series(steps, lambda record: record.get("grad_norm"))
    if len(norm[0]) > 1:
        panels.append(partial(_draw_norm, series=norm))
    columns = 2 if len(panels) == 4 else min(3, max(1, len(panels)))
    lines = max(1, math.ceil(len(panels) / columns))
    figure = new_figure(4.8 * columns, 2.9 * lines + 0.3, title)
    for number, draw in enumerate(panels, start=1):
        draw(figure.add_subplot(lines, columns, number))
    return figure


def _draw_loss(axes: Axes, shown: Mapping[str, Series], valid: Mapping[str, Series], unit: str) -> None:
    for (name, series), color in zip(shown.items(), _term_colors(shown), strict=True):
        _draw_noisy(axes, series, color, "sum of the terms" if name == "loss" and len(shown) > 1 else name)
        if name in valid:
            axes.plot(*valid[name], f"--{_dot(valid[name])}", color=color, linewidth=1, markersize=2.5)
    if shown.keys() & valid.keys():
        axes.plot([], [], "--o", color=MUTED, linewidth=1, markersize=2.5, label="validation")
    dress(axes, "Loss", "step", unit)
    *others, last = shown.values()
    _scale(axes, last, others)
    legend(axes)


def _draw_metric(axes: Axes, name: str, series: Series) -> None:
    at, values = series
    axes.plot(at, values, f"-{_dot(series)}", color=PALETTE[2], linewidth=1.8, markersize=3)
    if len(values):
        axes.annotate(
            f"{values[-1]:.4g}", (at[-1], values[-1]), xytext=(-2, 7), textcoords="offset points",
            fontsize=8, color=INK, ha="right",
        )  # fmt: skip
        axes.margins(y=0.2)
    dress(axes, _title(name), "step", "validation")
    _scale(axes, series)


def _dot(series: Series) -> str:
    return "o" if len(series[0]) <= DOTS else ""


def _draw_rate(axes: Axes, series: Series) -> None:
    axes.plot(*series, "-" if len(series[0]) > 2 else "o", color=PALETTE[4], linewidth=1.8)
    dress(axes, "Learning rate", "step", "rate")
    _scale(axes, series)
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0, top=1.1 * float(series[1].max()) or 1)  # else a constant rate fills the whole axis


def _draw_norm(axes: Axes, series: Series) -> None:
    _draw_noisy(axes, series, PALETTE[3], "norm")
    dress(axes, "Gradient norm", "step", "norm before clipping")
    _scale(axes, series)


def _draw_noisy(axes: Axes, series: Series, color: str, label: str) -> None:
    """The raw values pale, and their running mean above them."""
    at, values = series
    if len(at) < 3:
        axes.plot(at, values, "o", color=color, label=label)
        return
    thin = max(1, len(at) // RAW_POINTS)
    axes.plot(at[::thin], values[::thin], color=color, alpha=0.22, linewidth=0.8)
    axes.plot(at[::thin], smooth(values)[::thin], color=color, linewidth=1.8, label=label)


def smooth(values: NDArray[np.float64], window: int | None = None) -> NDArray[np.float64]:
    """The centered running mean over a window of an odd number of values; at the ends it is one-sided.

    >>> smooth(np.array([0.0, 3.0, 0.0, 3.0]), window=3).tolist()
    [1.5, 1.0, 2.0, 1.5]
    """
    half = (max(3, len(values) // 25) if window is None else window) // 2
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    start, end = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
    mean: NDArray[np.float64] = (sums[end] - sums[start]) / (end - start)
    return mean


def _scale(axes: Axes, series: Series, others: Sequence[Series] = ()) -> None:
    """Whole steps below; at the side a logarithm where the values are positive and spread over an order or more.

    The ``others`` next to them must not be negative either, as a contrastive divergence is: they would be cut off.
    """
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    at, values = series
    if len(at) == 1:
        axes.set_xlim(at[0] - 1, at[0] + 1)
    negative = any(len(other) and other.min() < 0 for _, other in others)
    if len(values) and values.min() > 0 and values.max() / values.min() > WIDE_RANGE and not negative:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())


def _series(records: Iterable[Record], value: Callable[[Record], float | None]) -> Series:
    """Steps and values, without what is missing or not finite."""
    pairs = [(record["step"], value(record)) for record in records]
    kept = [(step, number) for step, number in pairs if number is not None and math.isfinite(number)]
    at, values = zip(*kept, strict=True) if kept else ((), ())
    return np.array(at, dtype=np.float64), np.array(values, dtype=np.float64)


def _of(group: str, name: str) -> Callable[[Record], float | None]:
    return lambda record: record[group].get(name)


def _names(records: Iterable[Record], group: str) -> list[str]:
    """The names that occur, in the order of their first appearance."""
    return list(dict.fromkeys(name for record in records for name in record[group]))


def _title(name: str) -> str:
    """The name of a metric as a heading, with its abbreviations in capitals: words without vowels, and some others.

    >>> _title("mse"), _title("crps"), _title("rating_nll"), _title("accuracy")
    ('MSE', 'CRPS', 'Rating NLL', 'Accuracy')
    """
    words = [word.upper() if word in SHORT or not set(word) & set("aeiou") else word for word in name.split("_")]
    return " ".join([words[0][:1].upper() + words[0][1:], *words[1:]])


def _term_colors(terms: Mapping[str, Series]) -> list[str]:
    plain = iter(colors(len(terms)))
    return [INK if name == "loss" else next(plain) for name in terms]

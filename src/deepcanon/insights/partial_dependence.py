"""Partial dependence: the mean prediction of a model of a table as a function of one column."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor, nn

from deepcanon.core import Batch, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.hints import did_you_mean
from deepcanon.core.plural import counted
from deepcanon.core.table_units import ColumnUnits, TableUnits, Value
from deepcanon.insights._engines.table_rows import (
    TableRows,
    chosen_output,
    correlated,
    quantity,
    rows_of,
    say_correlated,
    written,
)
from deepcanon.pictures.style import INK, MUTED, PALETTE, colors, dress, footnote, legend, new_figure

TAIL = 0.05
"""The share of the rows at either end of a column of numbers that its curve leaves out."""

PANELS = 6
"""How many columns are shown, unless they are named: those over which the mean prediction varies most."""

UNLIKE = 1.0
"""From which ratio on single rows vary so much around the mean curve that this says little of them."""

MOST_CATEGORIES = 12
"""How many categories of a column are shown: the most frequent ones, or, where these are rare, some at even ranks."""


def partial_dependence(
    model: nn.Module,
    batch: Batch,
    table: TableUnits,
    *,
    columns: tuple[str, ...] = (),
    label: str | None = None,
    grid: int = 20,
    lines: int = 40,
) -> Finding:
    r"""The mean prediction of a model of a table as a function of each column, with that of single rows.

    The column is set to one value v in all rows, the others stay as they are:

    .. math:: \mathrm{PD}_j(v) = \frac{1}{N} \sum_{i=1}^{N} f(x_{i1}, \dots, x_{ij} = v, \dots)

    The curves of single rows, whose mean this is, are their individual conditional expectations (ICE): where they
    are not parallel, the effect of the column depends on other columns. The values are some that the rows have, at
    even ranks; of numbers without the lowest and the highest 5 %.

    References:
        | Greedy function approximation: a gradient boosting machine (Friedman, 2001),
          https://doi.org/10.1214/aos/1013203451
        | Peeking inside the black box: visualizing statistical learning with plots of individual conditional
          expectation (Goldstein et al., 2015), https://arxiv.org/abs/1309.6392

    Arguments:
        model: A classifier or a regression.
        batch: Rows of the table, whose target is not needed.
        table: The columns of the table.
        columns: The columns to show; by default those over which the mean prediction varies most.
        label: The class whose probability is shown; by default of two classes the second, else all.
        grid: At how many values of a column of numbers the model predicts.
        lines: How many rows have a curve of their own.
    """
    at_least(2, grid=grid)
    at_least(0, lines=lines)
    rows = rows_of(model, batch, table)
    for name in columns:
        if name not in table.names:
            raise UsageError(f"the table has no column {name!r}; {did_you_mean(name, table.names)}")
    output = chosen_output(rows, label)
    found = [
        dependence(rows, place, grid, lines, output)
        for place, column in enumerate(table.columns)
        if not columns or column.name in columns
    ]
    varied = sorted((each for each in found if len(each["values"]) > 1), key=lambda each: -each["range"])
    numbers = {
        "outputs": list(rows.outputs),
        "are_classes": rows.is_classes,
        "shown_output": output,
        "rows": len(rows.x),
        "columns": varied,
        "constant": [each["name"] for each in found if len(each["values"]) == 1],
        "correlated": correlated(rows),
    }
    if not varied:
        raise UsageError("every column has one value only in these rows, so nothing depends on it; give more examples")
    shown = varied if columns else varied[:PANELS]
    return Finding(numbers, _draw(rows, numbers, shown), tuple(_says(rows, numbers)))


def dependence(rows: TableRows, place: int, grid: int, lines: int, output: int | None) -> dict[str, Any]:
    """The partial dependence on one column, and the curves of some rows, of one output or of none."""
    column, where = rows.table.columns[place], rows.table.places[place]
    values, encoded, shares = some_values(column, rows.x[:, where], grid)
    predicted = torch.stack([rows.predict(_set(rows.x, where, one)) for one in encoded])  # (values, N, outputs)
    mean = predicted.mean(1)
    spans = mean.amax(0) - mean.amin(0)
    most = int(spans.argmax()) if output is None else output
    alone = predicted[..., most] - predicted[..., most].mean(0)  # the curve of each row around its own mean
    together = alone.mean(1, keepdim=True)
    varies, differs = float(together.square().mean().sqrt()), float((alone - together).square().mean().sqrt())
    return {
        "name": column.name,
        "numeric": column.numeric,
        "values": values,
        "shares": shares,
        "mean": mean.tolist(),
        "output": most,
        "range": float(spans[most]),
        "spread_of_mean": varies,
        "spread_of_rows": differs,
        "lines": [] if output is None else predicted[:, :lines, output].T.tolist(),
    }


def some_values(column: ColumnUnits, features: Tensor, grid: int) -> tuple[list[Value], Tensor, list[float]]:
    """Values that a column has in some rows, with their features and, where all values are there, their shares.

    All values of a column that has few, at most ``grid`` of a number; else the most frequent categories, or the values
    of rows at even ranks.
    """
    distinct, counts = features.unique(dim=0, return_counts=True)
    names = column.decode(distinct)
    kept = sorted(range(len(names)), key=lambda i: (isinstance(names[i], str), names[i]))
    present = [i for i in kept if names[i] != ""]
    most = grid if column.numeric else MOST_CATEGORIES
    frequent = sorted(kept, key=lambda i: -int(counts[i]))[:most]
    if not column.numeric and len(kept) > most and 2 * int(counts[frequent].sum()) >= len(features):
        kept = sorted(frequent, key=names.__getitem__)
    elif len(present) > most:  # numbers, or dates, none of which is frequent
        order = torch.tensor(present).repeat_interleave(counts[present].cpu())
        ranks = torch.linspace(TAIL, 1 - TAIL, most) * (len(order) - 1)
        some = dict.fromkeys(order[ranks.round().long()].tolist())
        kept = [*some, *(i for i in kept if names[i] == "")]
    shares = (counts[kept] / len(features)).tolist()
    return [names[i] for i in kept], distinct[kept], shares


def _set(x: Tensor, where: slice, value: Tensor) -> Tensor:
    changed = x.clone()
    changed[:, where] = value
    return changed


def _named(value: Value) -> str:
    return (value or "missing") if isinstance(value, str) else f"{value:.4g}"


def _where(column: dict[str, Any], value: Value) -> str:
    if value == "":
        return f"where {column['name']} is missing"
    return f"{'at' if column['numeric'] else 'for'} {column['name']} {_named(value)}"


def _extremes(rows: TableRows, column: dict[str, Any]) -> str:
    """Where the mean prediction is lowest, and where it is highest, in the order of the column."""
    curve = [mean[column["output"]] for mean in column["mean"]]
    low, high = min(range(len(curve)), key=curve.__getitem__), max(range(len(curve)), key=curve.__getitem__)
    first, second = sorted((low, high))
    ends = [f"{written(rows, curve[i])} {_where(column, column['values'][i])}" for i in (first, second)]
    return f"{quantity(rows, column['output'])} goes from {ends[0]} to {ends[1]}"


def _headline(rows: TableRows, numbers: dict[str, Any]) -> str:
    sentence = f"on average {_extremes(rows, numbers['columns'][0])}"
    return f"{sentence[0].upper()}{sentence[1:]}"


def _says(rows: TableRows, numbers: dict[str, Any]) -> list[str]:
    columns = numbers["columns"]
    says = [f"{_headline(rows, numbers)}."]
    if len(columns) > 1:
        others = [(columns[1], "then with"), (columns[-1], "and least with")][: len(columns) - 1]
        then = "".join(f", {words} {each['name']}, by {written(rows, each['range'])}" for each, words in others)
        says.append(f"It varies most with {columns[0]['name']}, by {written(rows, columns[0]['range'])}{then}.")
    unlike = [each["name"] for each in columns if each["spread_of_rows"] > UNLIKE * each["spread_of_mean"]]
    if columns[0]["name"] in unlike:
        says.append(
            f"Warning: the curves of single rows differ more from that of the mean than this varies, so what "
            f"{columns[0]['name']} does depends on other columns."
        )
    else:
        ratio = columns[0]["spread_of_rows"] / columns[0]["spread_of_mean"] if columns[0]["spread_of_mean"] else 0.0
        says.append(
            f"Single rows differ from the mean curve of {columns[0]['name']} by {100 * ratio:.0f} % of what it varies; "
            "0 % would be an effect that no other column changes."
        )
    if numbers["constant"]:
        says.append(f"Nothing is known of what has one value only in these rows: {', '.join(numbers['constant'])}.")
    return says + say_correlated(
        numbers["correlated"], "a curve over one of them also averages over combinations that no row has"
    )


def _draw(rows: TableRows, numbers: dict[str, Any], shown: list[dict[str, Any]]) -> Figure:
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = new_figure(3.6 * across + 0.6, 2.9 * down + 1.0, _headline(rows, numbers))
    panels = figure.subplots(down, across, squeeze=False, sharey=True).flatten()
    for axes, column in zip(panels, shown, strict=False):
        _draw_column(axes, rows, column, numbers["shown_output"])
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    for axes in panels[::across]:
        what = "mean probability" if numbers["shown_output"] is None else quantity(rows, numbers["shown_output"])
        axes.set_ylabel(
            what if rows.is_classes or len(rows.outputs) == 1 else "mean prediction", color=MUTED, fontsize=9
        )
    if rows.is_classes:
        panels[0].yaxis.set_major_formatter(PercentFormatter(1.0))
    if numbers["shown_output"] is None:
        legend(panels[0])
    single = "" if numbers["shown_output"] is None else "thick: the mean over all rows; thin: single rows; "
    left_out = len(numbers["columns"]) - len(shown)
    others = f" {counted(left_out, 'column')} over which it varies less are not shown." if left_out else ""
    footnote(
        figure, f"{counted(numbers['rows'], 'row', ',')}; {single}ticks below a curve: where it was computed.{others}"
    )
    return figure


def _draw_column(axes: Axes, rows: TableRows, column: dict[str, Any], output: int | None) -> None:
    there = [i for i, value in enumerate(column["values"]) if not (column["numeric"] and isinstance(value, str))]
    missing = [i for i in range(len(column["values"])) if i not in there]
    at = [column["values"][i] for i in there] if column["numeric"] else list(range(len(there)))
    marks = "-" if column["numeric"] else "o"
    for line in column["lines"]:
        axes.plot(at, [line[i] for i in there], marks, color=MUTED, linewidth=0.6, markersize=2.5, alpha=0.3)
    places = range(len(rows.outputs)) if output is None else [output]
    shades = colors(len(rows.outputs)) if output is None else [PALETTE[0]]
    for place, shade in zip(places, shades, strict=True):
        curve = [mean[place] for mean in column["mean"]]
        axes.plot(
            at, [curve[i] for i in there], marks, color=shade, linewidth=2.2, markersize=6, label=rows.outputs[place]
        )
        for i in missing:
            axes.axhline(curve[i], color=shade, linewidth=1.1, linestyle="--")
            axes.annotate(
                "missing", (0.99, curve[i]), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7,
                color=INK,
            )  # fmt: skip
    dress(axes, column["name"])
    if column["numeric"]:
        axes.plot(at, [0.015] * len(at), "|", color=INK, markersize=5, alpha=0.7, transform=axes.get_xaxis_transform())
        axes.locator_params(axis="x", nbins=5)
    else:
        steep = len(at) > 4 or max(len(_named(value)) for value in column["values"]) > 10
        axes.set_xticks(at, [_short(_named(column["values"][i])) for i in there], rotation=90 if steep else 0)
        axes.set_xlim(-0.5, len(at) - 0.5)
        axes.grid(False, axis="x")


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"

"""Input gradients: by how much the prediction of a model of a table changes with each of its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import Batch, UsageError
from deepcanon.core.finding import Finding
from deepcanon.core.hints import listed
from deepcanon.core.plural import counted
from deepcanon.core.table_units import ColumnUnits, TableUnits
from deepcanon.insights._engines.table_rows import TableRows, chosen_output, quantity, rows_of
from deepcanon.pictures.style import INK, PALETTE, colors, dress, footnote, legend, new_figure

SHOWN = 16
"""How many columns are shown: those with the largest gradients."""

SAME_SIGN = 0.95
"""The share of the rows with gradients of one sign from which on a column has one direction."""


def input_gradients(model: nn.Module, batch: Batch, table: TableUnits, *, label: str | None = None) -> Finding:
    r"""The derivatives of a model's prediction by the numbers of a table, in its units: mean, spread and sign.

    .. math:: g_{ij} = \frac{\partial f(x_i)}{\partial x_{ij}}

    Of a linear model they are its coefficients, the same for all rows; the more they differ between rows, the less
    linear is the model. Columns in different units are compared by :math:`s_j\, g_{ij}`, the change per standard
    deviation :math:`s_j` of the column. Categories have no derivative, and a missing number has none either.

    References:
        | How to explain individual classification decisions (Baehrens et al., 2010),
          https://www.jmlr.org/papers/v11/baehrens10a.html
        | Deep inside convolutional networks: visualising image classification models and saliency maps (Simonyan et
          al., 2014), https://arxiv.org/abs/1312.6034

    Arguments:
        model: A classifier, whose probabilities are differentiated, or a regression.
        batch: Rows of the table, whose target is not needed.
        table: The columns of the table.
        label: The class whose probability is differentiated; by default of two classes the second, else all.
    """
    rows = rows_of(model, batch, table)
    output = chosen_output(rows, label)
    shown = [*range(len(rows.outputs))] if output is None else [output]
    places = zip(table.columns, table.places, strict=True)
    slopes = {column.name: _slopes(rows, column, place) for column, place in places if column.numeric}
    slopes = {name: found for name, found in slopes.items() if found.deviation > 0}
    if not slopes:
        raise UsageError(
            "gradients are taken by numbers, and these rows have no column of different numbers; partial_dependence "
            "shows what categories do"
        )
    found = [{"name": name} | of_column.numbers() for name, of_column in slopes.items()]
    found.sort(key=lambda column: -max(column["per_deviation"][place]["size"] for place in shown))
    top = slopes[found[0]["name"]]
    numbers = {
        "outputs": list(rows.outputs),
        "are_classes": rows.is_classes,
        "shown_output": output,
        "rows": len(rows.x),
        "columns": found,
        "of_first_column": {"values": top.values.tolist(), "gradients": top.gradients.tolist()},
        "left_out": [name for name in table.names if name not in slopes],
    }
    return Finding(numbers, _draw(rows, numbers), tuple(_says(rows, numbers)))


@dataclass(frozen=True)
class Slopes:
    """The gradients by one column of numbers, (N, outputs), in the units of the table, at its values, (N,)."""

    values: Tensor
    gradients: Tensor

    @property
    def deviation(self) -> float:
        return float(self.values.std(correction=0)) if len(self.values) else 0.0

    def numbers(self) -> dict[str, Any]:
        """Summaries for each output, per unit of the column and per standard deviation of it."""
        return {
            "deviation": self.deviation,
            "per_unit": [_summary(slopes) for slopes in self.gradients.T],
            "per_deviation": [_summary(self.deviation * slopes) for slopes in self.gradients.T],
        }


def _slopes(rows: TableRows, column: ColumnUnits, place: slice) -> Slopes:
    """The gradients by one column in the rows that have its number."""
    gradients = rows.gradients(place.start)
    if gradients is None:
        raise UsageError("the model gives classes without probabilities, which have no gradient by its inputs")
    decoded = column.decode(rows.x[:, place])
    there = [i for i, value in enumerate(decoded) if not isinstance(value, str)]
    values = torch.tensor([decoded[i] for i in there], dtype=torch.float64)
    return Slopes(values, gradients.cpu()[there] / column.slopes(rows.x[there][:, place])[:, None])


def _summary(slopes: Tensor) -> dict[str, float]:
    """The mean, the standard deviation, the mean size and the share of positive ones, and some quantiles."""
    low, first, middle, third, high = slopes.quantile(torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95]).to(slopes)).tolist()
    return {
        "mean": float(slopes.mean()),
        "std": float(slopes.std(correction=0)),
        "size": float(slopes.abs().mean()),
        "positive": float((slopes > 0).double().mean()),
        "negative": float((slopes < 0).double().mean()),
        "q05": low, "q25": first, "median": middle, "q75": third, "q95": high,
    }  # fmt: skip


def _amount(rows: TableRows, value: float) -> str:
    return f"{100 * value:+.3g} percentage points" if rows.is_classes else f"{value:+.3g}"


def _shown_place(numbers: dict[str, Any], column: dict[str, Any]) -> int:
    """The output that is spoken of: that which is shown, or of several the one that the column changes most."""
    if numbers["shown_output"] is not None:
        return int(numbers["shown_output"])
    sizes = [each["size"] for each in column["per_deviation"]]
    return sizes.index(max(sizes))


def _headline(rows: TableRows, numbers: dict[str, Any]) -> str:
    top = numbers["columns"][0]
    place = _shown_place(numbers, top)
    per_unit, per_deviation = top["per_unit"][place], top["per_deviation"][place]
    what = quantity(rows, place)
    return (
        f"On average {what} changes by {_amount(rows, per_unit['mean'])} per unit of {top['name']}, by "
        f"{_amount(rows, per_deviation['mean'])} per standard deviation ({top['deviation']:.3g})"
    )


def _says(rows: TableRows, numbers: dict[str, Any]) -> list[str]:
    says = [f"{_headline(rows, numbers)}."]
    top = numbers["columns"][0]
    place = _shown_place(numbers, top)
    found = top["per_unit"][place]
    says.append(
        f"Between rows the gradient has a standard deviation of {_amount(rows, found['std']).removeprefix('+')}, which "
        f"is 0 for a linear model. It is positive in {100 * found['positive']:.0f} % of the rows and negative in "
        f"{100 * found['negative']:.0f} %."
    )
    both = [
        column["name"]
        for column in numbers["columns"]
        for each in [column["per_unit"][_shown_place(numbers, column)]]
        if each["size"] > 0 and max(each["positive"], each["negative"]) < SAME_SIGN
    ]
    if both:
        says.append(f"The gradient is positive in some rows and negative in others by {listed(both)}.")
    if numbers["left_out"]:
        says.append(
            f"Without a gradient, since they are not numbers, or have one value only: {listed(numbers['left_out'])}; "
            "partial_dependence shows what they do."
        )
    return says


def _draw(rows: TableRows, numbers: dict[str, Any]) -> Figure:
    columns = numbers["columns"][:SHOWN]
    figure = new_figure(11.0, max(3.6, 0.34 * len(columns) + 1.9), _headline(rows, numbers))
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.25, 1]})
    outputs = range(len(rows.outputs)) if numbers["shown_output"] is None else [numbers["shown_output"]]
    shades = colors(len(rows.outputs)) if numbers["shown_output"] is None else [PALETTE[0]]
    _draw_ranges(left, rows, columns, outputs, shades)
    unit = 100.0 if rows.is_classes else 1.0
    name, of_first = columns[0]["name"], numbers["of_first_column"]
    for place, shade in zip(outputs, shades, strict=True):
        slopes = [unit * row[place] for row in of_first["gradients"]]
        right.plot(of_first["values"], slopes, "o", color=shade, markersize=3.5, alpha=0.5, markeredgewidth=0)
    right.axhline(0, color=INK, linewidth=0.8)
    what = "percentage points" if rows.is_classes else rows.outputs[0] if len(rows.outputs) == 1 else "prediction"
    dress(right, f"gradient of each row by {name}", name, f"{what} per unit")
    left_out = len(numbers["columns"]) - len(columns)
    others = f" {counted(left_out, 'column')} with smaller gradients are not shown." if left_out else ""
    footnote(
        figure,
        f"{counted(numbers['rows'], 'row', ',')}; thick lines hold the middle half of the rows, thin ones 90 %, dots "
        f"are their mean.{others}",
    )
    return figure


def _draw_ranges(axes: Axes, rows: TableRows, columns: list[dict[str, Any]], outputs: Any, shades: list[str]) -> None:
    unit = 100.0 if rows.is_classes else 1.0
    height = 0.7 / len(shades)
    for row, column in enumerate(columns):
        for i, (place, shade) in enumerate(zip(outputs, shades, strict=True)):
            found = {name: unit * value for name, value in column["per_deviation"][place].items()}
            at = row + (i - (len(shades) - 1) / 2) * height
            axes.plot([found["q05"], found["q95"]], [at, at], color=shade, linewidth=1.0)
            axes.plot(
                [found["q25"], found["q75"]], [at, at], color=shade, linewidth=4.0, alpha=0.5, solid_capstyle="butt"
            )
            name = rows.outputs[place] if row == 0 and len(shades) > 1 else None
            axes.plot([found["mean"]], [at], "o", color=shade, markersize=5, label=name)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(columns)), [_short(column["name"]) for column in columns])
    axes.set_ylim(len(columns) - 0.5, -0.5)
    what = "percentage points" if rows.is_classes else rows.outputs[0] if len(rows.outputs) == 1 else "prediction"
    dress(axes, "change per standard deviation of a column", what)
    axes.grid(False, axis="y")
    if len(shades) > 1:
        legend(axes)


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"

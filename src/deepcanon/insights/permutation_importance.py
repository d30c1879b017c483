"""Permutation importance: how much worse the predictions of a table are without the information of a column."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor, nn

from deepcanon.core import Labeled, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.hints import listed
from deepcanon.core.plural import counted
from deepcanon.core.table_units import TableUnits
from deepcanon.insights._engines.table_rows import TableRows, correlated, rows_of, say_correlated
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, footnote, new_figure

SHOWN = 20
"""How many columns are shown: those of the largest importance."""

LEAST_ROWS = 2
"""Fewer rows cannot be shuffled."""

Z = 1.96
"""Standard errors on either side of a 95 % interval."""


@dataclass(frozen=True)
class Measure:
    """A measure of predictions, made of what each row adds to it."""

    name: str
    title: str
    worse: int
    """1 where more is worse, -1 where less is."""
    rows: Callable[[Tensor], Tensor]
    """Of predictions, (N, outputs), what each row adds, (N,)."""
    total: Callable[[float], float]
    """The measure, of the mean over the rows."""
    slope: Callable[[float], float]
    """The derivative of the measure by that mean."""


def permutation_importance(
    model: nn.Module, batch: Labeled, table: TableUnits, *, repeats: int = 10, seed: int = 0
) -> Finding:
    r"""How much worse a model of a table predicts when the values of a column are shuffled among the rows.

    Of column j of the table, in all of its features at once,

    .. math:: I_j = \frac{1}{R} \sum_{r=1}^{R} L(f, \pi_r^{(j)} X, y) - L(f, X, y)

    with random permutations of that column and a loss L: of classes the log loss and the lost accuracy, of targets the
    root mean square error and the lost coefficient of determination. For a linear model of independent columns, the
    mean squared error rises by :math:`2 \beta_j^2 \operatorname{var}(x_j)`. It is what this model rests on, not what
    the target depends on: of two columns with the same information, a model may use either.

    The standard errors are those of other rows and other permutations; columns are told apart on the same ones.

    References:
        | Random forests (Breiman, 2001), https://doi.org/10.1023/A:1010933404324
        | All models are wrong, but many are useful (Fisher, Rudin and Dominici, 2019),
          https://arxiv.org/abs/1801.01489

    Arguments:
        model: A classifier or a regression.
        batch: Rows of the table with their target, best such as the model has not learned from.
        table: The columns of the table.
        repeats: How often each column is shuffled.
        seed: The seed of the permutations.
    """
    at_least(1, repeats=repeats)
    rows = rows_of(model, batch, table)
    if rows.y is None:
        raise UsageError("the importance of a column is measured on rows with their target; these have none")
    if len(rows.x) < LEAST_ROWS:
        raise UsageError(f"shuffling needs at least {LEAST_ROWS} rows, got {len(rows.x)}; give more examples")
    generator = torch.Generator().manual_seed(seed)
    orders = torch.stack([torch.randperm(len(rows.x), generator=generator) for _ in range(repeats)])
    numbers = importances(rows, orders) | {"correlated": correlated(rows)}
    return Finding(numbers, _draw(numbers), tuple(_says(numbers)))


def importances(rows: TableRows, orders: Tensor) -> dict[str, Any]:
    """The importance of every column by these permutations of the rows, (repeats, N), by every measure."""
    intact = rows.predict(rows.x)
    measures = _measures(rows, intact)
    before = {measure.name: measure.rows(intact) for measure in measures}
    first = measures[0]
    found: list[dict[str, Any]] = []
    influences: list[Tensor] = []
    for column, place in zip(rows.table.columns, rows.table.places, strict=True):
        after = [rows.predict(_shuffled(rows.x, place, order)) for order in orders]
        of_column: dict[str, Any] = {"name": column.name}
        for measure in measures:
            each = torch.stack([measure.rows(predicted) for predicted in after])  # (repeats, N)
            influence = _influence(measure, before[measure.name], each, orders)
            of_column[measure.name] = _summary(measure, before[measure.name], each, influence)
            if measure is first:
                influences.append(influence)
        found.append(of_column)
    order = sorted(range(len(found)), key=lambda j: -found[j][first.name]["mean"])
    leader = order[0]
    for of_column, influence in zip(found, influences, strict=True):
        of_column["behind"] = found[leader][first.name]["mean"] - of_column[first.name]["mean"]
        of_column["behind_error"] = _error(influences[leader] - influence)
    return {
        "target": rows.table.target or ("the class" if rows.is_classes else "the target"),
        "rows": len(rows.x),
        "repeats": len(orders),
        "measures": [
            {"name": measure.name, "title": measure.title, "worse": measure.worse}
            | {"intact": measure.total(float(before[measure.name].mean()))}
            for measure in measures
        ],
        "no_input": _without_input(rows),
        "columns": [found[j] for j in order],
    }


def _shuffled(x: Tensor, place: slice, order: Tensor) -> Tensor:
    changed = x.clone()
    changed[:, place] = x[order.to(x.device), place]
    return changed


def _measures(rows: TableRows, intact: Tensor) -> list[Measure]:
    """The measures of these predictions, the first of which orders the columns."""
    y = rows.y
    assert y is not None
    if rows.is_classes:
        tiny = torch.finfo(torch.float32).tiny
        accuracy = Measure("accuracy", "accuracy", -1, lambda p: (p.argmax(1) == y).double(), float, lambda _: 1.0)
        if bool(((intact == 0) | (intact == 1)).all()):  # classes, without probabilities
            return [accuracy]
        log_loss = Measure(
            "nll", "log loss", 1, lambda p: -p.gather(1, y[:, None])[:, 0].clamp_min(tiny).log(), float, lambda _: 1.0
        )
        return [log_loss, accuracy]
    rmse = Measure(
        "rmse",
        "RMSE",
        1,
        lambda p: (p - y).square().sum(1),
        math.sqrt,
        lambda mse: 0.5 / math.sqrt(mse) if mse else 0.0,
    )
    spread = y.var(0, correction=0)
    if not bool((spread > 0).all()):
        return [rmse]
    r2 = Measure("r2", "R²", -1, lambda p: 1 - ((p - y).square() / spread).mean(1), float, lambda _: 1.0)
    return [rmse, r2]


def _influence(measure: Measure, before: Tensor, each: Tensor, orders: Tensor) -> Tensor:
    """By how much each row raises the importance, (N,), to first order: by its own loss, and by that of the row
    that gets its value.
    """
    after = each.mean(1, keepdim=True)
    slopes = torch.tensor([[measure.slope(float(mean))] for mean in after], dtype=torch.float64)
    moved = slopes * (each - after)
    given = moved.gather(1, orders.argsort(1))  # of the row that got the value of this one
    held = measure.slope(float(before.mean())) * (before - before.mean())
    return measure.worse * ((moved + given).mean(0) - held)


def _error(influence: Tensor) -> float:
    """The standard error of a sum of influences of the rows."""
    return float(influence.std(correction=1)) / math.sqrt(len(influence))


def _summary(measure: Measure, before: Tensor, each: Tensor, influence: Tensor) -> dict[str, Any]:
    """How much worse a measure is, for what each row adds to it before and, (repeats, N), after the shuffles."""
    intact = measure.total(float(before.mean()))
    shuffled = [measure.total(float(mean)) for mean in each.mean(1)]
    increases = torch.tensor([measure.worse * (after - intact) for after in shuffled], dtype=torch.float64)
    return {
        "mean": float(increases.mean()),
        "std": float(increases.std(correction=0)),
        "error": _error(influence),
        "each": increases.tolist(),
        "shuffled": sum(shuffled) / len(shuffled),
    }


def _without_input(rows: TableRows) -> dict[str, float]:
    """What a prediction reaches on these rows that uses no column."""
    assert rows.y is not None
    if rows.is_classes:
        return {"accuracy": float(rows.y.bincount().max()) / len(rows.y)}
    return {"rmse": float(rows.y.var(0, correction=0).sum().sqrt())}


def _shown(name: str, value: float) -> str:
    return f"{100 * value:.1f} %" if name == "accuracy" else f"{value:.3g}"


def _tied(numbers: dict[str, Any]) -> list[str]:
    """The columns that cannot be told from the one of the largest importance, this one first."""
    return [
        each["name"]
        for place, each in enumerate(numbers["columns"])
        if place == 0 or (each["behind"] <= Z * each["behind_error"] and not _is_noise(numbers, each))
    ]


def _is_noise(numbers: dict[str, Any], column: dict[str, Any]) -> bool:
    """Whether the importance cannot be told from none."""
    of_first = column[numbers["measures"][0]["name"]]
    return bool(of_first["mean"] <= Z * of_first["error"])


def _change(numbers: dict[str, Any], column: dict[str, Any]) -> str:
    """How every measure changes with a column shuffled."""
    changes = []
    for measure in numbers["measures"]:
        name, intact, after = measure["name"], measure["intact"], column[measure["name"]]["shuffled"]
        way = "stays at" if _shown(name, intact) == _shown(name, after) else "rises" if after > intact else "falls"
        ends = _shown(name, after) if way == "stays at" else f"from {_shown(name, intact)} to {_shown(name, after)}"
        changes.append(f"the {measure['title']} {way} {ends}")
    return " and ".join(changes)


def _headline(numbers: dict[str, Any]) -> str:
    top = numbers["columns"][0]
    if _is_noise(numbers, top):
        return f"No column of the table makes a difference that {counted(numbers['rows'], 'row', ',')} can show"
    tied = _tied(numbers)
    if len(tied) > 1:
        names = f"{listed(tied[:-1])} and {tied[-1]}"
        return f"The predictions of {numbers['target']} rest most on {names}, which cannot be told apart"
    return f"The predictions of {numbers['target']} rest most on {top['name']}: shuffled, {_change(numbers, top)}"


def _says(numbers: dict[str, Any]) -> list[str]:
    columns = numbers["columns"]
    says = [f"{_headline(numbers)}."]
    if len(_tied(numbers)) > 1 and not _is_noise(numbers, columns[0]):
        says.append(f"With the values of {columns[0]['name']} shuffled, {_change(numbers, columns[0])}.")
    idle = [each["name"] for each in columns if _is_noise(numbers, each)]
    if 0 < len(idle) < len(columns):
        says.append(
            f"Of {counted(len(columns), 'column')}, these make no difference that "
            f"{counted(numbers['rows'], 'row', ',')} can show: {listed(idle)}."
        )
    intact = {measure["name"]: measure["intact"] for measure in numbers["measures"]}
    ((name, without),) = numbers["no_input"].items()
    if (intact[name] <= without) if name == "accuracy" else (intact[name] >= without):
        reached = f"{'accuracy' if name == 'accuracy' else 'RMSE'} {_shown(name, intact[name])}"
        says.append(
            f"Warning: the model is no better than a prediction without any column ({reached} against "
            f"{_shown(name, without)}), so little can be learned from what it rests on."
        )
    therefore = "with one of them shuffled the model still has the other, so both may matter more than they seem"
    return says + say_correlated(numbers["correlated"], therefore)


def _draw(numbers: dict[str, Any]) -> Figure:
    """For every measure, the increase of the loss by column: each shuffle as a dot, the mean with its interval."""
    columns, measures = numbers["columns"][:SHOWN], numbers["measures"]
    figure = new_figure(4.6 * len(measures) + 1.6, 0.32 * len(columns) + 1.9, _headline(numbers))
    for place, (axes, measure) in enumerate(
        zip(figure.subplots(1, len(measures), sharey=True, squeeze=False)[0], measures, strict=True)
    ):
        name = measure["name"]
        of_first = [column[measures[0]["name"]] for column in columns]
        for row, column in enumerate(columns):
            found = column[name]
            shade = MUTED if of_first[row]["mean"] <= Z * of_first[row]["error"] else PALETTE[0]
            axes.barh(row, found["mean"], height=0.66, color=shade, alpha=0.45)
            axes.plot(found["each"], [row + 0.18] * len(found["each"]), "o", color=shade, markersize=3, alpha=0.8)
            axes.errorbar(found["mean"], row - 0.08, xerr=Z * found["error"], color=INK, linewidth=1.1, capsize=2)
        axes.axvline(0, color=INK, linewidth=0.8)
        dress(axes, _panel_title(measure), "larger is more important")
        axes.grid(False, axis="y")
        if name == "accuracy":
            axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        if place == 0:
            axes.set_yticks(range(len(columns)), [_short(column["name"]) for column in columns])
            axes.invert_yaxis()
    left_out = len(numbers["columns"]) - len(columns)
    others = f" {counted(left_out, 'column')} of less importance are not shown." if left_out else ""
    footnote(
        figure,
        f"{counted(numbers['rows'], 'row', ',')}, each column shuffled {counted(numbers['repeats'], 'time')}: dots are "
        f"shuffles, bars their mean, lines its 95 % interval, gray what cannot be told from 0.{others}",
    )
    return figure


def _panel_title(measure: dict[str, Any]) -> str:
    what = "increase" if measure["worse"] > 0 else "decrease"
    return f"{what} of the {measure['title']}, which is {_shown(measure['name'], measure['intact'])}"


def _short(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"

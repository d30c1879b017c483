"""Positions of a model: how alike those at each distance are, and whether the place can be read off them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from deepcanon.core import AnyBatch, UsageError
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.nn.positions import RelativeBias, Rotary, sinusoidal
from deepcanon.pictures.style import MUTED, PALETTE, colors, dress, legend, new_figure

FOLDS = 5
WORD = "position"


def recovery_error(table: Tensor, folds: int = FOLDS) -> tuple[float, float]:
    r"""The mean absolute error of the place n as a linear function of its encoding: of all places, of held-out ones.

    .. math:: \min_{w, b} \sum_n (w \cdot r_n + b - n)^2

    It is least squares, by the solution of the smallest norm. Of held-out places every fifth one is left out in turn.
    """
    rows = torch.cat([table.double().cpu(), torch.ones(len(table), 1, dtype=torch.float64)], 1)
    places = torch.arange(len(table), dtype=torch.float64)
    errors = torch.zeros(len(table), dtype=torch.float64)
    for fold in range(folds):
        held = places % folds == fold
        errors[held] = rows[held] @ _solved(rows[~held], places[~held]) - places[held]
    return float((rows @ _solved(rows, places) - places).abs().mean()), float(errors.abs().mean())


def _solved(rows: Tensor, targets: Tensor) -> Tensor:
    solution: Tensor = torch.linalg.lstsq(rows, targets.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    return solution


def similarity_by_distance(table: Tensor) -> tuple[list[float], list[float]]:
    """The mean of the cosine of two encodings at each distance, from 0 on, and its standard deviation over places."""
    cosines = cosine_similarity(table.unsqueeze(1), table.unsqueeze(0), dim=-1)
    diagonals = [cosines.diagonal(distance) for distance in range(len(table))]
    return [float(each.mean()) for each in diagonals], [float(each.std(correction=0)) for each in diagonals]


def positions(model: nn.Module, batch: AnyBatch) -> Finding:
    r"""What a model's positions say: their similarity by distance, and the error of the place recovered from them.

    .. math:: c(k) = \frac{1}{n - k} \sum_i \cos(r_i, r_{i+k}), \qquad \min_{w, b} \sum_n (w \cdot r_n + b - n)^2

    Of a table of encodings r, learned or sinusoidal, c is the mean cosine at the distance k, and a linear regression
    recovers the place: exactly, of sinusoids of enough frequencies. Held-out places are left out of the regression.
    Rotary positions are those of a query of ones, which is rotated. A relative bias is shown by distance and head: it
    knows no places. Sinusoids of the same size stand next to a learned table, and so does one of random numbers.

    References:
        | What Do Position Embeddings Learn? An Empirical Study of Pre-Trained Language Model Positional Encoding
          (Wang and Chen, 2020), https://arxiv.org/abs/2010.04903
        | RoFormer: Enhanced Transformer with Rotary Position Embedding (Su et al., 2021),
          https://arxiv.org/abs/2104.09864

    Arguments:
        model: The model: a table is an embedding, a parameter or a buffer with "position" in its name.
        batch: Examples, by whose length a rotation is measured.
    """
    length = max(8, batch.x.shape[1] - 1)
    tables, biases = dict(_tables(model, length)), dict(_biases(model))
    if not tables and not biases:
        raise UsageError(
            f"{type(model).__name__} has no positions: no table with {WORD!r} in its name, no rotary ones and no "
            "relative bias"
        )
    rows = [_row(name, table) for name, table in tables.items()]
    if tables:
        places, width = next(iter(tables.values())).shape
        random = torch.randn(places, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        fixed = sinusoidal(places, width + width % 2, dtype=torch.float64)
        rows += [_row("sinusoids of that size", fixed), _row("random numbers of that size", random)]
    numbers = {"tables": rows, "biases": biases}
    return Finding(numbers, _figure(rows, biases), _sentences(rows, len(tables), biases))


def _tables(model: nn.Module, length: int) -> Iterator[tuple[str, Tensor]]:
    """The encodings of a model by name, (places, width), double precision."""
    named = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in named:
        owner = name.rpartition(".")[0]
        if WORD in name.lower() and tensor.squeeze().ndim == 2 and not isinstance(_part(model, owner), RelativeBias):
            yield name.removesuffix(".weight"), tensor.detach().squeeze().double().cpu()
    rotations = [(name, part) for name, part in model.named_modules() if isinstance(part, Rotary)]
    for name, part in rotations[:1]:  # that of every layer is the same
        yield name, part(torch.ones(length, part.width, dtype=torch.float64)).cpu()


def _biases(model: nn.Module) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, part in model.named_modules():
        if isinstance(part, RelativeBias):
            table = part.table.detach().double().cpu()
            yield name, {"distances": list(range(-part.reach, part.reach + 1)), "heads": table.tolist()}


def _part(model: nn.Module, name: str) -> nn.Module:
    return model.get_submodule(name)


def _row(name: str, table: Tensor) -> dict[str, Any]:
    means, spreads = similarity_by_distance(table)
    error, held = recovery_error(table)
    return {
        "name": name, "places": len(table), "width": table.shape[1], "similarity": means, "spread": spreads,
        "recovery_error": error, "held_out_recovery_error": held,
        "error_of_the_mean": float((torch.arange(len(table)).double() - (len(table) - 1) / 2).abs().mean()),
    }  # fmt: skip


def _sentences(rows: Sequence[Mapping[str, Any]], own: int, biases: Mapping[str, Any]) -> tuple[str, ...]:
    says = [
        f"From {row['name']} ({counted(row['places'], 'place')}, each of width {row['width']}) a linear regression "
        f"recovers the place up to {row['recovery_error']:.2g} in the mean, a held-out place up to "
        f"{row['held_out_recovery_error']:.2g}; the middle of all places is off by {row['error_of_the_mean']:.3g}."
        for row in rows
    ]
    for row in rows[:own]:
        next_, far = row["similarity"][1], row["similarity"][len(row["similarity"]) // 2]
        says.append(
            f"In {row['name']} neighbors have a mean cosine of {next_:.2f}, places {len(row['similarity']) // 2} apart "
            f"one of {far:.2f}."
        )
    for name, bias in biases.items():
        table = torch.tensor(bias["heads"])
        head, place = divmod(int(table.abs().argmax()), table.shape[1])
        largest = f"has its largest number, {float(table[head, place]):.2f}, in head {head} at the distance "
        found = f"{largest}{bias['distances'][place]}" if bool(table.any()) else "is zero at every distance"
        says.append(f"The relative bias {name} {found}.")
    return tuple(says)


def _figure(rows: Sequence[Mapping[str, Any]], biases: Mapping[str, Any]) -> Figure:
    panels = 2 * bool(rows) + len(biases)
    figure = new_figure(4.6 * panels + 0.6, 3.6, "What positions say of the place and the distance")
    grid = figure.subplots(1, panels, squeeze=False)[0]
    if rows:
        _draw_similarity(grid[0], rows)
        _draw_recovery(grid[1], rows)
    for axes, (name, bias) in zip(grid[2 * bool(rows) :], biases.items(), strict=True):
        heads = bias["heads"]
        for number, (values, color) in enumerate(zip(heads, colors(len(heads)), strict=True)):
            axes.plot(bias["distances"], values, color=color, linewidth=1.4, label=f"head {number}")
        dress(axes, f"Bias {name}", "distance of the key from the query", "added to the score")
        legend(axes)
    return figure


def _draw_similarity(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    for place, (row, color) in enumerate(zip(rows, PALETTE, strict=False)):
        distances = range(len(row["similarity"]))
        low, high = zip(*((m - s, m + s) for m, s in zip(row["similarity"], row["spread"], strict=True)), strict=True)
        axes.fill_between(distances, low, high, color=color, alpha=0.2, linewidth=0)
        axes.plot(distances, row["similarity"], color=color, linewidth=1.4 if place else 3.2, label=row["name"])
    axes.axhline(0, color=MUTED, linewidth=0.6)
    axes.set_ylim(-0.7, 1.9)  # with room for the legend
    dress(axes, "Cosine by distance: mean, one deviation", "distance of two places", "cosine")
    legend(axes)


def _draw_recovery(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    least = 1e-13
    for place, (row, color) in enumerate(zip(rows, PALETTE, strict=False)):
        for off, key, alpha in ((-0.18, "recovery_error", 0.5), (0.18, "held_out_recovery_error", 1.0)):
            axes.barh(place + off, max(row[key], least), 0.34, left=0, color=color, alpha=alpha)
            axes.text(max(row[key], least), place + off, f" {row[key]:.2g}", va="center", fontsize=7, color=MUTED)
    axes.set_xscale("log")
    axes.set_xlim(least, 1e5)
    axes.set_yticks(range(len(rows)), [row["name"].replace(" of that", "\nof that") for row in rows])
    axes.invert_yaxis()
    dress(axes, "Recovery of the place: all (pale), held out", "mean absolute error in places", "")

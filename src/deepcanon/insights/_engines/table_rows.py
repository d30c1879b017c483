"""Rows of a table before a model: its predictions for them, as they are or changed, in the units of the table."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from deepcanon.core import AnyBatch, Labeled, Model, UsageError, eval_mode
from deepcanon.core.hints import did_you_mean
from deepcanon.core.plural import counted
from deepcanon.core.roles import Predicts
from deepcanon.core.table_units import TableUnits

AT_ONCE = 16384
"""How many rows the model predicts at once."""

CORRELATED = 0.8
"""The absolute correlation from which on two columns say much the same."""


@dataclass(frozen=True)
class TableRows:
    """Some rows of a table and a model of it; what it predicts has one column for each of its ``outputs``."""

    model: nn.Module
    x: Tensor
    """The features, (N, features)."""
    y: Tensor | None
    """The classes, (N,), or the targets in the units of the table, (N, targets), where they are known."""
    table: TableUnits
    outputs: tuple[str, ...]
    """The names of the classes, whose probabilities are predicted, or of the targets."""
    is_classes: bool

    def predict(self, x: Tensor) -> Tensor:
        """What the model predicts for such rows: probabilities, or targets in their units, (N, outputs)."""
        return torch.cat([self._predicted(part) for part in x.split(AT_ONCE)])

    def gradients(self, feature: int) -> Tensor | None:
        """The derivatives of all predictions by one feature, (N, outputs); None where there is no derivative.

        They are computed forward, along the rows, so that a ``predict`` without gradients has them, too.
        """
        found = []
        for part in self.x.split(AT_ONCE):
            along = torch.zeros_like(part)
            along[:, feature] = 1.0
            with forward_ad.dual_level():
                along_outputs = forward_ad.unpack_dual(self._predicted(_dual(part, along))).tangent
            if along_outputs is None:
                return None
            found.append(along_outputs)
        return torch.cat(found)

    def _predicted(self, x: Tensor) -> Tensor:
        predicted = _outputs(self.model, x, self.is_classes).double()
        return predicted if self.is_classes else self.table.offset + self.table.scale * predicted


def rows_of(model: nn.Module, batch: AnyBatch, table: TableUnits) -> TableRows:
    """The rows of a batch, refused where they are not those of a table, or where the model predicts nothing of them."""
    x = batch.x
    if len(batch.inputs) != 1 or not x.is_floating_point() or x.ndim != 2 or bool(x.isnan().any()):
        got = f"{batch.noun} of shape {tuple(x.shape[1:])}"
        raise UsageError(f"this is an insight into models of tables, rows of numbers and categories; these are {got}")
    if x.shape[1] != table.features:
        raise UsageError(
            f"the columns of the table are {counted(table.features, 'feature')}; these rows have {x.shape[1]}"
        )
    if isinstance(model, Model) and not isinstance(model, Predicts):
        raise UsageError(f"{model.name()} predicts no target; this is an insight into classifiers and regressions")
    y = batch.y if isinstance(batch, Labeled) else None
    is_classes = _predicts_classes(model, x[:1], y, table)
    predicted = _outputs(model, x[:1], is_classes)
    if predicted.ndim != 2:
        raise UsageError(
            f"the model must predict one row per row of the table; it gave {tuple(predicted.shape)} of one"
        )
    if y is not None and not is_classes:
        y = table.offset + table.scale * y.double()
        if y.shape[1:] != predicted.shape[1:]:
            given = counted(predicted.shape[1], "target")
            raise UsageError(f"the model predicts {given}; those of the rows have the shape {tuple(y.shape[1:])}")
    return TableRows(model, x, y, table, _named(table, predicted.shape[1], is_classes), is_classes)


def chosen_output(rows: TableRows, label: str | None) -> int | None:
    """The place of the output of this name; without one, of two classes the second, of one target that; else None."""
    if label is not None:
        if label not in rows.outputs:
            raise UsageError(f"there is no class {label!r}; {did_you_mean(label, rows.outputs)}")
        return rows.outputs.index(label)
    if len(rows.outputs) == 1:
        return 0
    return 1 if rows.is_classes and len(rows.outputs) == 2 else None


def quantity(rows: TableRows, output: int) -> str:
    """What an output is, in words."""
    return f"the probability of {rows.outputs[output]}" if rows.is_classes else rows.outputs[output]


def written(rows: TableRows, value: float) -> str:
    """A prediction as it is written: a probability in percent, a target with four digits."""
    return f"{100 * value:.1f} %" if rows.is_classes else f"{value:.4g}"


def correlated(rows: TableRows) -> list[dict[str, Any]]:
    """The pairs of columns of which two features are correlated, the strongest first.

    What a model says of one of them then rests on combinations with the other that no row has.
    """
    spread = rows.x.double() - rows.x.double().mean(0)
    norms = spread.square().sum(0).sqrt()
    correlations = ((spread.T @ spread) / (norms[:, None] * norms[None, :])).nan_to_num(0.0)
    places, names = rows.table.places, rows.table.names
    found = []
    for i, one in enumerate(places):
        for j, other in enumerate(places[:i]):
            block = correlations[other, one].flatten()
            strongest = float(block[block.abs().argmax()])
            if abs(strongest) >= CORRELATED:
                found.append({"columns": [names[j], names[i]], "correlation": strongest})
    return sorted(found, key=lambda pair: -abs(pair["correlation"]))


def say_correlated(pairs: list[dict[str, Any]], therefore: str) -> list[str]:
    """A warning of the pair of columns with the strongest correlation, and what follows from it."""
    if not pairs:
        return []
    (one, other), strength = pairs[0]["columns"], pairs[0]["correlation"]
    more = f" (and {counted(len(pairs) - 1, 'more such pair')})" if len(pairs) > 1 else ""
    return [f"Warning: {one} and {other} have a correlation of {strength:.2f}{more}: {therefore}."]


def _dual(x: Tensor, along: Tensor) -> Tensor:
    """The rows with a direction in which everything that is computed from them is differentiated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch imports its forward rules, which warns of itself
        dual: Tensor = forward_ad.make_dual(x, along)
    return dual


def _predicts_classes(model: nn.Module, row: Tensor, y: Tensor | None, table: TableUnits) -> bool:
    if isinstance(model, Predicts):
        with eval_mode(model), torch.random.fork_rng(devices=[]):
            return not model.predict(row, how="mode").is_floating_point()
    return bool(table.classes) if y is None else not y.is_floating_point()


def _outputs(model: nn.Module, x: Tensor, is_classes: bool) -> Tensor:
    """Probabilities or targets as the model has them; a module without ``predict`` gives logits or targets."""
    with eval_mode(model), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the same draws for rows that are compared
        if isinstance(model, Predicts):
            return model.predict(x, how="mean")
        given = model(x)
        if not isinstance(given, Tensor):
            raise UsageError(f"the model must give a tensor of logits or targets; it gave {type(given).__name__}")
        return given.softmax(-1) if is_classes else given


def _named(table: TableUnits, outputs: int, is_classes: bool) -> tuple[str, ...]:
    if is_classes:
        return table.classes if len(table.classes) == outputs else tuple(f"class {i}" for i in range(outputs))
    name = table.target or "the target"
    return (name,) if outputs == 1 else tuple(f"{name} {i + 1}" for i in range(outputs))

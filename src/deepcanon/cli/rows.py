"""Data for a model that is already trained: its own, or new rows treated as those were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.cli.suits import GIVES
from deepcanon.core import AnyBatch, Labelled, Model, UsageError
from deepcanon.data import Dataset, load_data, load_rows
from deepcanon.train import Run


def own_data(run: Run) -> Dataset[Any]:
    """The data a run was trained on."""
    name = _own_name(run)
    info = run.info["data"]
    return load_data(name, target=info["target"], preprocessing=info["preprocessing"] or None)


def new_rows(run: Run, model: Model[Any], data: str | None, labelled: bool = True) -> AnyBatch:
    """All rows of a file or folder, or the test part of a known data set, for the model of a run.

    Rows must look like those the model has learned from and, where ``labelled`` says so, have labels if those had.
    """
    name = data or _own_name(run)
    info = run.info["data"]
    holds = _kind_of_path(name)
    if holds is not None and holds != info["kind"]:
        raise UsageError(f"the model has learned from {GIVES[info['kind']]}; {name} gives {GIVES[holds]}")
    rows = load_rows(name, {"classes": info["labels"], "shape": info["shape"], **info["preprocessing"]})
    learned, given = tuple(info["shape"]), tuple(rows.x.shape[1:])
    if given[-len(learned) :] != learned:
        raise UsageError(f"the model has learned from examples of shape {learned}; {name} gives {given}")
    if labelled:
        _check_labels(rows, model, info, name)
    return rows


def _check_labels(rows: AnyBatch, model: Model[Any], info: Mapping[str, Any], name: str) -> None:
    if not isinstance(rows, model.eats()):
        wanted = f"the column {info['target']!r}" if info["target"] else model.eats().words
        raise UsageError(f"{name} does not have {wanted} in every row, so there is nothing to compare with")
    classes = info["sizes"].get("classes")
    if classes is not None and isinstance(rows, Labelled) and int(rows.y.max()) >= classes:
        raise UsageError(f"the model knows {classes} classes; {name} has at least {int(rows.y.max()) + 1}")


def _kind_of_path(name: str) -> str | None:
    """What a file or folder holds; None where the name is that of a known data set."""
    if name.lower().endswith(".csv"):
        return "table"
    return "images" if Path(name).is_dir() else None


def _own_name(run: Run) -> str:
    name = run.info["data"]["name"]
    if name == "tensors":
        raise UsageError(f"{run.dir} was trained on tensors given in Python; say by --data which data to use now")
    return str(name)

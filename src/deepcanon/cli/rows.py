"""Data for a model that is already trained: its own, or new rows treated as those were."""

from __future__ import annotations

from typing import Any

from deepcanon.core import AnyBatch, Model, UsageError
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
    rows = load_rows(name, info["preprocessing"])
    learned, given = tuple(info["shape"]), tuple(rows.x.shape[1:])
    if given[-len(learned) :] != learned:
        raise UsageError(f"the model has learned from examples of shape {learned}; {name} gives {given}")
    if labelled and not isinstance(rows, model.eats()):
        wanted = f"the column {info['target']!r}" if info["target"] else model.eats().words
        raise UsageError(f"{name} does not have {wanted} in every row, so there is nothing to compare with")
    return rows


def _own_name(run: Run) -> str:
    name = run.info["data"]["name"]
    if name == "tensors":
        raise UsageError(f"{run.dir} was trained on tensors given in Python; say by --data which data to use now")
    return str(name)

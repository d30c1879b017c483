"""The data of a run: those it was trained on, found again, or new rows treated as those were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.core import AnyBatch, Labeled, Model, UsageError
from deepcanon.core.plural import counted
from deepcanon.data import Dataset, absolute_name, kind_of_path, load_data, load_rows
from deepcanon.data.dataset import GIVES
from deepcanon.data.tensors import SOURCE as FROM_TENSORS
from deepcanon.runs.folder import RunFolder


def own_data(run: RunFolder, remedy: str = "say which data to use now") -> Dataset[Any]:
    """The data a run was trained on."""
    info = run.info["data"]
    return load_data(_own_name(run, remedy), target=info["target"], preprocessing=info["preprocessing"] or None)


def is_own(run: RunFolder, data: str | None) -> bool:
    """Whether these are the data a run was trained on, by whatever path a file or folder is named."""
    return data is None or absolute_name(data) == absolute_name(_found_again(run))


def new_rows(run: RunFolder, model: Model[Any], data: str | None, labeled: bool = True) -> AnyBatch:
    """All rows of a file or folder, or the test split of a known data set, for the model of a run.

    Rows must look like those the model has learned from and, where ``labeled`` says so, have labels if those had;
    elsewhere labels are ignored.
    """
    name = data or _own_name(run)
    info = run.info["data"]
    holds = kind_of_path(name)
    if holds == "table" and info["kind"] == "ratings":  # a file is read as that of the training was
        name, holds = name if name.endswith(f":{info['kind']}") else f"{name}:{info['kind']}", None
    captionless = holds == "images" and info["kind"] == "captions" and not labeled
    if holds is not None and holds != info["kind"] and not captionless:
        raise UsageError(f"the model has learned from {GIVES[info['kind']]}; {name} gives {GIVES[holds]}")
    rows = load_rows(
        name, {"classes": info["labels"], "shape": info["shape"], **info["preprocessing"]}, labeled=labeled
    )
    learned, given = tuple(info["shape"]), tuple(rows.x.shape[1:])
    if given[-len(learned) :] != learned:
        raise UsageError(f"the model has learned from examples of shape {learned}; {name} gives {given}")
    if info["vocabulary"] and holds is None and tuple(info["vocabulary"]) != load_data(name).vocabulary:
        raise UsageError(
            f"the model has learned from text in {counted(len(info['vocabulary']), 'token')}; {name} has others"
        )
    if labeled:
        _check_labels(rows, model, info, name)
        targets = info.get("target_vocabulary")
        if targets and tuple(targets) != load_data(name).target_vocabulary:
            raise UsageError(f"the model has learned to write in {counted(len(targets), 'token')}; {name} has others")
    return rows


def _check_labels(rows: AnyBatch, model: Model[Any], info: Mapping[str, Any], name: str) -> None:
    needed = model.batch_type().held_out()
    if not isinstance(rows, needed):
        wanted = f"the column {info['target']!r}" if info["target"] else needed.noun
        raise UsageError(f"{name} does not have {wanted} in every row, so there is nothing to compare with")
    classes = info["sizes"].get("classes")
    if classes is not None and isinstance(rows, Labeled) and int(rows.y.max()) >= classes:
        raise UsageError(
            f"the model predicts {counted(classes, 'class', '', 'classes')}; {name} has at least "
            f"{int(rows.y.max()) + 1}"
        )


def _own_name(run: RunFolder, remedy: str = "say which data to use now") -> str:
    if run.info["data"]["source"] == FROM_TENSORS or run.info["data"]["name"] == "tensors":
        raise UsageError(f"{run.dir} was trained on tensors given in Python; {remedy}")
    return _found_again(run)


def _found_again(run: RunFolder) -> str:
    """The name of the run's data; of a file or folder that is still there, with the path that holds everywhere."""
    info = run.info["data"]
    if not Path(info["source"]).is_absolute() or not Path(info["source"]).exists():
        return str(info["name"])
    form = info["preprocessing"].get("form")
    return f"{info['source']}:{form}" if form else str(info["source"])

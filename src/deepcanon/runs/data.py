"""The data of a run: those it was trained on, found again, or new rows treated as those were."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepcanon.core import AnyBatch, Blueprint, Labeled, Model, SentencePairs, UsageError
from deepcanon.core.plural import counted
from deepcanon.core.reading import Reading, is_frame, reading_of
from deepcanon.data import Dataset, absolute_name, kind_of_path, load_data, load_rows, of, row_names
from deepcanon.data.dataset import GIVES
from deepcanon.data.load import table_path
from deepcanon.data.tensors import SOURCE as FROM_TENSORS
from deepcanon.data.text.special import SpecialTokens, WithSpecialTokens
from deepcanon.data.text.words import UNKNOWN, Words
from deepcanon.runs.folder import RunFolder


def own_data(run: RunFolder, remedy: str = "say which data to use now") -> Dataset[Any]:
    """The data a run was trained on."""
    info = run.info["data"]
    return load_data(own_name(run, remedy), preprocessing=info["preprocessing"] or None, **_reading(info))


def given_again(run: RunFolder, data: Any) -> Dataset[Any]:
    """The data a run was trained on, given once more; a data frame is read as it was."""
    info = run.info["data"]
    if not is_frame(data):
        return of(data)
    form = info["preprocessing"].get("form")
    return of(data, form=form, preprocessing=info["preprocessing"] or None, **_reading(info))


def tokens_of(asked: Blueprint, data: Any, reading: Mapping[str, Any]) -> dict[str, Any]:
    """How labeled texts of a file are read for a trained model of sentences that is asked for: in its own words."""
    trained = next((part.trained for part in asked.everything() if part.trained is not None), None)
    if trained is None or trained.batch_type() is not SentencePairs or not isinstance(data, str | Path):
        return {}
    if kind_of_path(str(data), reading=reading) != "sequences":
        return {}
    special = SpecialTokens.of(trained.vocabulary)
    words = trained.vocabulary[len(special.ids) :]
    if UNKNOWN not in words or special.class_ is None:
        raise UsageError(
            f"this {trained.name()} has other tokens than words, in which alone texts of a file are read for it"
        )
    tokenizer = WithSpecialTokens(Words(words), special)
    models = [part for part in trained.modules() if isinstance(part, Model)]  # a method and the model that it wraps
    length = next(part.hparams["length"] for part in models if "length" in part.hparams)
    return {"preprocessing": {"tokenizer": tokenizer.to_json(), "size": length}}


def is_own(run: RunFolder, data: str | None) -> bool:
    """Whether these are the data a run was trained on, by whatever path a file or folder is named.

    It may be named without the forms of the training, since these are how a run reads whatever it is given.
    """
    own = (absolute_name(_found_again(run)), run.info["data"]["source"])
    return data is None or absolute_name(data) in own


def new_rows(
    run: RunFolder, model: Model[Any], data: str | None, labeled: bool = True, nodes: str | Path | None = None
) -> AnyBatch:
    """All rows of a file or folder, or the test split of a known data set, for the model of a run.

    Rows must look like those the model has learned from and, where ``labeled`` says so, have labels if those had;
    elsewhere labels are ignored. ``nodes`` is the table of the nodes of an edge list, by default that of the run.
    """
    name = data or own_name(run)
    info = run.info["data"]
    reading = _reading(info, nodes)
    holds = kind_of_path(name, info["preprocessing"], reading)
    captionless = holds == "images" and info["kind"] == "captions" and not labeled
    if holds is not None and holds != info["kind"] and not captionless:
        raise UsageError(f"the model has learned from {GIVES[info['kind']]}; {name} gives {GIVES[holds]}")
    rows = load_rows(name, _saved(info), labeled=labeled, reading=reading)
    learned, given = tuple(info["shape"]), tuple(rows.x.shape[1:])
    if info["kind"] in ("sequences", "pairs", "series"):  # which may be of any length
        learned, given = learned[1:], given[1:]
    if given[-len(learned) :] != learned:
        raise UsageError(f"the model has learned from examples of shape {learned}; {name} gives {given}")
    if info["vocabulary"] and holds is None and tuple(info["vocabulary"]) != load_data(name).vocabulary:
        raise UsageError(
            f"the model has learned from text in {counted(len(info['vocabulary']), 'token')}; {name} has others"
        )
    if labeled:
        _check_labels(rows, model, info, name)
        targets = info.get("target_vocabulary")
        if targets and holds is None and tuple(targets) != load_data(name).target_vocabulary:
            raise UsageError(f"the model has learned to write in {counted(len(targets), 'token')}; {name} has others")
    return rows


def names_of_rows(run: RunFolder, data: str | None, nodes: str | Path | None = None) -> dict[str, list[Any]]:
    """What the rows of a file or folder are called, as the first columns of a table; empty where nothing names them."""
    info = run.info["data"]
    return row_names(data or own_name(run), _saved(info), _reading(info, nodes))


def _saved(info: Mapping[str, Any]) -> dict[str, Any]:
    """What new rows are treated by."""
    return {"classes": info["labels"], "shape": info["shape"], "source": info["source"], **info["preprocessing"]}


def new_table(run: RunFolder, data: str | None) -> Path | None:
    """The CSV file that holds new rows of a run's table, or its own; None where the run has learned from other data."""
    info = run.info["data"]
    if info["kind"] != "table" or "columns" not in info["preprocessing"]:
        return None
    return table_path(data or own_name(run), info["preprocessing"], _reading(info))


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


def _reading(info: Mapping[str, Any], nodes: str | Path | None = None) -> Reading:
    """How the data of a run were read, or with another table of nodes; runs of earlier versions have only a target."""
    reading = reading_of({"target": info["target"], **info.get("reading", {})})
    if nodes is not None and "nodes" not in reading:
        raise UsageError(f"the model has not learned from an edge list with a table of nodes; leave out {nodes}")
    return reading if nodes is None else {**reading, "nodes": str(nodes)}


def own_name(run: RunFolder, remedy: str = "say which data to use now") -> str:
    """The name by which the data of a run are found again."""
    if run.info["data"]["source"] == FROM_TENSORS or run.info["data"]["name"] == "tensors":
        raise UsageError(f"{run.dir} was trained on data given in Python; {remedy}")
    return _found_again(run)


def _found_again(run: RunFolder) -> str:
    """The name of the run's data; of a file or folder that is still there, with the path that holds everywhere."""
    info = run.info["data"]
    if not Path(info["source"]).is_absolute() or not Path(info["source"]).exists():
        return str(info["name"])
    form = info["preprocessing"].get("form")
    return f"{info['source']}:{form}" if form else str(info["source"])

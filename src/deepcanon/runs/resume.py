"""Trained models loaded from their runs, and broken-off runs resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepcanon.catalogue import find as find_in_catalogue
from deepcanon.core import Blueprint, DataError, Model
from deepcanon.core.blueprint import Find
from deepcanon.data import Dataset
from deepcanon.runs.data import own_data
from deepcanon.runs.folder import RunFolder
from deepcanon.train import randomness
from deepcanon.train.observers import Observer
from deepcanon.train.result import Result
from deepcanon.train.settings import settings_of
from deepcanon.train.trainer import Trainer


def load(run: str | Path, model: type[Model[Any]] | None = None, *, find: Find | None = None) -> Model[Any]:
    """The trained model of a run, in evaluation mode; ``model`` is its class where that is not in the catalogue."""
    folder = RunFolder.open(run)
    built = _built(folder, find or finder(*([] if model is None else [model])))
    built.load_state_dict(folder.read_weights())
    return built.eval()


def resume(
    run: str | Path,
    data: Dataset[Any] | None = None,
    model: type[Model[Any]] | None = None,
    *,
    find: Find | None = None,
    quiet: bool = False,
    observers: Sequence[Observer] = (),
) -> Result:
    """Go on with a run from its last whole checkpoint; the parameters end as if it had never been broken off.

    ``data`` and ``model`` are needed where the run's data have no name or its class is not in the catalogue.
    """
    folder = RunFolder.open(run)
    built = _built(folder, find or finder(*([] if model is None else [model])))
    if folder.info["status"] == "finished" and folder.weights.is_file():
        built.load_state_dict(folder.read_weights())
        built.eval()
        results = folder.info["results"]
        return Result(built, folder.dir, **results, weights=folder.info["weights"], history=folder.log())
    trainer = Trainer(built, _same_data(folder, data), settings_of(folder.info), quiet=quiet, observers=observers)
    trainer.go_on(folder)
    return trainer.fit()


def finder(*models: type[Model[Any]]) -> Find:
    """Finds classes by name: these, and those of the catalogue."""
    known = {model.name(): model for model in models}
    return lambda name: known.get(name) or find_in_catalogue(name)


def _built(folder: RunFolder, find: Find) -> Model[Any]:
    with randomness.kept():  # initial weights are drawn, then replaced
        model = Blueprint.from_json(folder.info["model"], find).build()
    for part in model.modules():
        if isinstance(part, Model):  # a method wraps others, which have the vocabulary too
            part.vocabulary = tuple(folder.info["data"]["vocabulary"])
    return model


def _same_data(folder: RunFolder, data: Dataset[Any] | None) -> Dataset[Any]:
    """The data the run was begun with; other data would silently make it another run."""
    data = own_data(folder, "give the same data to resume") if data is None else data
    if data.fingerprint() != folder.info["data"]["fingerprint"]:
        raise DataError(f"the data {data.name} are not those that {folder.dir} was begun with; resuming needs the same")
    return data

"""Trained models loaded from their runs, and broken-off runs resumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from deepcanon.blueprints import Classes
from deepcanon.core import Blueprint, CheckpointError, DataError, DeepcanonError, Model
from deepcanon.core.blueprint import Find
from deepcanon.data import Dataset
from deepcanon.runs.classes import finder
from deepcanon.runs.contents import Results
from deepcanon.runs.data import given_again, own_data
from deepcanon.runs.folder import RunFolder
from deepcanon.train import randomness
from deepcanon.train.observers import Observer
from deepcanon.train.result import Result
from deepcanon.train.settings import settings_of
from deepcanon.train.trainer import Trainer

EXACT, AT_LEAST = ("features", "channels", "height", "width", "targets"), ("classes", "vocab", "target_vocab")
"""Sizes of a model that must be those of the data, and those that may be larger."""


def load(run: str | Path, model: Classes | None = None, *, find: Find | None = None) -> Model[Any]:
    """The trained model of a run, in evaluation mode.

    ``model`` is its class where that is not in the catalogue, ``"FILE.py:Class"``, or several of these.
    """
    folder = RunFolder.open(run)
    return load_from(folder, find or finder(folder, model))


def load_from(folder: RunFolder, find: Find) -> Model[Any]:
    """The trained model of an opened run, as its ``run.json`` said then: another process may have gone on since."""
    return _with_weights(built_from(folder, find), folder)


def resume(
    run: str | Path,
    data: Any = None,
    model: Classes | None = None,
    *,
    find: Find | None = None,
    quiet: bool = False,
    observers: Sequence[Observer] = (),
) -> Result:
    """Go on with a run from its last whole checkpoint; the parameters end as if it had never been broken off.

    ``data``, whatever :func:`~deepcanon.train.fit` takes, and ``model`` are needed where the run's data have no name or
    its class is not in the catalogue.
    """
    folder = RunFolder.open(run)
    built = built_from(folder, find or finder(folder, model))
    if folder.info["status"] == "finished" and folder.weights.is_file():
        results = {name: value for name, value in folder.info["results"].items() if name in Results.__annotations__}
        return Result(
            _with_weights(built, folder), folder.dir, **results, weights=folder.info["weights"], history=folder.log()
        )
    trainer = Trainer(
        built, _same_data(folder, data), settings_of(folder.info, folder.file), quiet=quiet, observers=observers
    )
    trainer.go_on(folder)
    return trainer.fit()


def _with_weights(model: Model[Any], folder: RunFolder) -> Model[Any]:
    """The model with the run's final weights, in evaluation mode."""
    model.load_state_dict(folder.read_weights(model))
    return model.eval()


def built_from(folder: RunFolder, find: Find) -> Model[Any]:
    """The model that ``run.json`` describes, with whatever weights: they are drawn from the random state as it is."""
    path, info = folder.file, folder.info
    try:
        with randomness.kept():  # initial weights are drawn, then replaced
            model = Blueprint.from_json(info["model"], find).build()
            if info.get("dtype") is not None:
                model = model.to(getattr(torch, info["dtype"]))
    except DeepcanonError as error:
        raise type(error)(f"{path}: {error}") from error
    except Exception as error:  # whatever a constructor says to arguments that nobody would have given it
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise CheckpointError(f"{path} describes a {info['model']['model']} that cannot be built: {reason}") from error
    for part in model.modules():
        if isinstance(part, Model):  # a method wraps others, which have the vocabulary too
            part.vocabulary = tuple(info["data"]["vocabulary"])
    if wrong := _unfitting(model, info["data"]["sizes"]):
        raise CheckpointError(f"{path} contradicts itself: {wrong}")
    return model


def _unfitting(model: Model[Any], sizes: Mapping[str, int]) -> str:
    """Why a model cannot have learned from data of these sizes; empty where it can."""
    for name, size in sizes.items():
        own = model.hparams.get(name)
        if isinstance(own, int) and (own != size if name in EXACT else own < size if name in AT_LEAST else False):
            return f"{name} is {own} in the model and {size} in the data"
    return ""


def _same_data(folder: RunFolder, data: Any) -> Dataset[Any]:
    """The data the run was begun with; other data would silently make it another run."""
    same = own_data(folder, "give the same data to resume") if data is None else given_again(folder, data)
    if same.fingerprint() != folder.info["data"]["fingerprint"]:
        raise DataError(f"the data {same.name} are not those that {folder.dir} was begun with; resuming needs the same")
    return same

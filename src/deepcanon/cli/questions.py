"""The arguments of insights and studies: those that are options, and those that the command line fills by their names.

An argument with a default is an option. Of one without, ``model``, ``batch`` and ``checkpoints`` of an insight come
from what it looks at; of a study it is a model of the catalogue, by that name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepcanon.cli.arguments import Options, given, switches_off
from deepcanon.cli.subjects import few, is_run, part_of, trained, untrained
from deepcanon.core import AnyBatch, Model, UsageError
from deepcanon.data import load_data
from deepcanon.data.images.image_files import SUFFIXES
from deepcanon.data.images.image_folder import read_image
from deepcanon.runs import checkpoint
from deepcanon.train import Run

Parameters = dict[str, inspect.Parameter]


def options_of(function: Callable[..., Any]) -> Parameters:
    """The arguments that have a default, with their annotations resolved."""
    parameters = inspect.signature(function, eval_str=True).parameters
    return {name: each for name, each in parameters.items() if each.default is not inspect.Parameter.empty}


def filled(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the arguments without a default."""
    parameters = inspect.signature(function).parameters
    return tuple(name for name, each in parameters.items() if each.default is inspect.Parameter.empty)


def divided(options: Options, parameters: Mapping[str, inspect.Parameter]) -> tuple[Options, Options]:
    """The options that belong to these parameters, and all others."""
    own = {
        name: words for name, words in options.items() if name in parameters or switches_off(name, words, parameters)
    }
    return own, {name: words for name, words in options.items() if name not in own}


def fill(
    function: Callable[..., Any],
    subject: str | None,
    others: Options,
    known: Sequence[str],
    data: str | None,
    examples: int,
    seed: int,
) -> tuple[dict[str, Any], str]:
    """The arguments of an insight that come from its subject, and a short name of the subject.

    ``others`` are options that the insight does not know, which belong to a model that is yet to be built; ``known``
    are those that it or the command does know.
    """
    needs = filled(function)
    model, batch, where = _look_at(function, subject, others, known, data, seed)
    filling: dict[str, Any] = {"model": model, "batch": few(batch, examples)}
    if "checkpoints" in needs:
        filling["checkpoints"] = _checkpoints(function, subject)
    return {name: filling[name] for name in needs}, where


def _look_at(
    function: Callable[..., Any],
    subject: str | None,
    others: Options,
    known: Sequence[str],
    data: str | None,
    seed: int,
) -> tuple[Model[Any] | None, AnyBatch, str]:
    name = function.__name__
    needs_model = "model" in filled(function)
    is_name = subject is not None and not is_run(subject)
    if others and not (needs_model and is_name):
        given(name, options_of(function), others, known)  # which refuses them
    if subject is None:
        if needs_model:
            raise UsageError(f"{name} looks at which model? Say: deepcanon insight {name} RUN")
        if data is None:
            raise UsageError(f"{name} looks at which examples? Name an image, a run, or data by --data")
        return None, part_of(load_data(data)), data
    if is_run(subject):
        model, batch, _ = trained(Path(subject), data)
        return model, batch, Path(subject).resolve().name
    if Path(subject).suffix.lower() in SUFFIXES:
        if needs_model:
            raise UsageError(f"{name} looks at a model: give the folder of a run in place of {subject}")
        return None, read_image(Path(subject)), Path(subject).stem
    if Path(subject).is_dir():
        Run.open(subject)  # which says what is missing
    if not needs_model:
        raise UsageError(f"{name} needs no model; name an image ({', '.join(SUFFIXES)}), a run, or data by --data")
    model, batch, where = untrained(subject, others, known, data, None, seed)
    return model, batch, f"{model.name()}-{Path(where).stem}"


def _checkpoints(function: Callable[..., Any], subject: str | None) -> list[dict[str, Any]]:
    """The weights that a run has saved, oldest first."""
    name = function.__name__
    if subject is None or not is_run(subject):
        raise UsageError(f"{name} follows a training: give it the folder of a run")
    return [checkpoint.read(path)["model"] for path in checkpoint.saved(Run.open(subject).checkpoints)]

"""Sessions as the page asks for them: a model of the catalogue, points in the plane, and settings, all checked here.

Nothing names code or a path: models are names of the catalogue, data are embedded, drawn, or files that the user has
named when the studio was started.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from deepcanon.blueprints import from_options
from deepcanon.catalogue import check_name, find
from deepcanon.core import Blueprint, DataError, Model, UsageError, arguments_of
from deepcanon.core.annotations import read_value
from deepcanon.core.settings import Settings, check_numbers, listed_settings
from deepcanon.core.spec import is_model
from deepcanon.data import Dataset, from_tensors, load_data
from deepcanon.data.load import describe_data
from deepcanon.data.suits import check_suits
from deepcanon.data.tables.csv_file import read
from deepcanon.data.transforms.few_labels import few_labels
from deepcanon.train import randomness

MOST_POINTS = 2000
MOST_CLASSES = 6
MOST_WORDS = 40
LARGEST = 4096
"""The largest whole number among a model's arguments: a playground is not made for large models."""
FARTHEST = 1e6

SETTINGS = ("steps", "batch_size", "lr", "optimizer", "schedule", "clip", "seed")
"""The settings of the training that the page offers; the others are fixed or meaningless here."""

FIXED: Settings = {"keep_weights": "last", "evaluate": False, "device": "cpu"}
"""What every session trains by: the weights that are seen are the last ones."""


@dataclass(frozen=True)
class Asked:
    """A session that can begin: the blueprint, the data, the settings, and how the data were asked for."""

    blueprint: Blueprint
    data: Dataset[Any]
    settings: Settings
    source: Mapping[str, Any]
    files: Mapping[str, Path]

    def build(self) -> Model[Any]:
        """The model at its first weights, those of the seed."""
        with randomness.kept():
            torch.manual_seed(self.settings["seed"])
            return self.blueprint.build(self.data.model_sizes, self.data.name)


def asked_for(wanted: Any, files: Mapping[str, Path]) -> Asked:
    """The session that the page wants, or an error in a sentence."""
    _only(wanted, "a session", "model", "arguments", "data", "settings")
    data = data_of(wanted.get("data"), files)
    asked = model_of(wanted.get("model"), wanted.get("arguments") or {})
    check_suits(asked, data)
    return Asked(asked, data, settings_from(wanted.get("settings") or {}), wanted["data"], files)


def data_of(wanted: Any, files: Mapping[str, Path]) -> Dataset[Any]:
    """The points that are asked for: an embedded set, drawn by hand, or two columns of a file."""
    _only(wanted, "data", "set", "labels", "points", "file", "columns", "target")
    labels = wanted.get("labels")
    if labels is not None and not (isinstance(labels, int) and 1 <= labels <= MOST_POINTS):
        raise UsageError(f"labels is how many labels stay, a whole number, or nothing; got {str(labels)[:40]!r}")
    if sum(name in wanted for name in ("set", "points", "file")) != 1:
        raise UsageError("data are a set by its name, points, or a file: name one of them")
    if "set" in wanted:
        if wanted["set"] not in plane_sets():
            raise UsageError(f"there are no points {str(wanted['set'])[:40]!r}; there are {', '.join(plane_sets())}")
        return load_data(wanted["set"] if labels is None else f"{wanted['set']}:labels={labels}")
    data = drawn(wanted["points"]) if "points" in wanted else _of_file(wanted, files)
    return data if labels is None else few_labels(data, f"labels={labels}")


def plane_sets() -> dict[str, dict[str, Any]]:
    """The embedded data sets that are points in the plane, by name, as they are described."""
    return {
        row["name"]: row
        for row in describe_data()
        if row["folder"] is None and row["kind"] == "points" and tuple(row["shape"]) == (2,)
    }


def drawn(points: Any) -> Dataset[Any]:
    """Points drawn by hand, each [x, y] or [x, y, class]; either all have a class or none has."""
    if not isinstance(points, list) or not 4 <= len(points) <= MOST_POINTS:
        raise DataError(f"draw from 4 to {MOST_POINTS:,} points")
    widths = {len(point) if isinstance(point, list) else 0 for point in points}
    numbers = [value for point in points if isinstance(point, list) for value in point]
    if not (widths == {2} or widths == {3}) or not all(_is_number(value) for value in numbers):
        raise DataError("a point is [x, y] or, of all points, [x, y, class], in finite numbers")
    x = torch.tensor([point[:2] for point in points])
    if bool((x.max(0).values == x.min(0).values).any()):
        raise DataError("all points lie on one line along an axis: draw some elsewhere, too")
    if widths == {2}:
        return from_tensors(x, name="drawn")
    classes = [point[2] for point in points]
    if not all(isinstance(each, int) and 0 <= each < MOST_CLASSES for each in classes):
        raise DataError(f"classes are whole numbers from 0 to {MOST_CLASSES - 1}")
    if sorted(set(classes)) != list(range(max(classes) + 1)) or max(classes) == 0:
        raise DataError("draw points of at least two classes, and of every class up to the last one")
    return from_tensors(x, torch.tensor(classes), name="drawn")


def _of_file(wanted: Mapping[str, Any], files: Mapping[str, Path]) -> Dataset[Any]:
    name = wanted["file"]
    if name not in files:
        raise UsageError(f"there is no file {str(name)[:40]!r} here: name it when you start the studio")
    return load_data(files[name], **reading_of_columns(files[name], wanted.get("columns"), wanted.get("target")))


def reading_of_columns(path: Path, columns: Any, target: Any) -> dict[str, Any]:
    """The options by which two columns of a file are read as numbers, and the target, if there is one."""
    there = columns_of(path)
    if not isinstance(columns, list) or len(columns) != 2 or len({*map(str, columns)}) != 2:
        raise UsageError("two columns are shown, one along each axis: name two")
    for name in [*columns, *([] if target is None else [target])]:
        if name not in there:
            raise UsageError(f"{path.name} has no column {str(name)[:40]!r}; it has {', '.join(there)}")
    if target in columns:
        raise UsageError(f"{target} cannot be an axis and the target")
    others = [name for name in there if name not in (*columns, target)]
    reading: dict[str, Any] = {"column": dict.fromkeys(columns, "number")}
    return reading | ({"drop": others} if others else {}) | ({"target": target} if target is not None else {})


def columns_of(path: Path) -> list[str]:
    """The names of the columns of a table."""
    return list(read(path).columns)


def model_of(name: Any, arguments: Any) -> Blueprint:
    """The model of this name with arguments in words, as the command line takes them."""
    if not isinstance(name, str):
        raise UsageError("model is the name of a model")
    check_name(name)
    cls = find(name)
    if not isinstance(arguments, Mapping) or len(arguments) > MOST_WORDS:
        raise UsageError("arguments are names with their values in words")
    for key, words in arguments.items():
        if not isinstance(words, str) or len(words) > 200:
            raise UsageError(f"the argument {str(key)[:40]} is given in words, as on the command line")
    _only_names(cls, arguments)
    asked = from_options(cls, {key: [words] for key, words in arguments.items()}, prefix="")
    _check_sizes(asked)
    return asked


def _only_names(cls: type[Model[Any]], arguments: Mapping[str, str]) -> None:
    """Refuse a model inside the model that is not a name of the catalogue: the folder of a run, or code."""
    for name, parameter in arguments_of(cls).items():
        if is_model(parameter.annotation) and name in arguments:
            check_name(arguments[name])
            inside = {key[len(name) + 1 :]: words for key, words in arguments.items() if key.startswith(f"{name}.")}
            _only_names(find(arguments[name]), inside)


def _check_sizes(asked: Blueprint) -> None:
    for part in asked.everything():
        for name, value in part.arguments.items():
            numbers = value if isinstance(value, tuple) else (value,)
            if len(numbers) > 16 or any(isinstance(each, int) and each > LARGEST for each in numbers):
                raise UsageError(f"{name} of {part.cls.name()} is too large for a playground: at most {LARGEST:,}")


def settings_from(wanted: Any) -> Settings:
    """The settings that the page gives, with those that are fixed; the recipe decides the others."""
    _only(wanted, "settings", *SETTINGS)
    known = listed_settings()
    given = {
        name: read_value(name, [value[:100]], known[name][0]) if isinstance(value, str) else value
        for name, value in wanted.items()
        if value not in (None, "")
    }
    check_numbers(given)
    return {**FIXED, "seed": 0, **given}


def _only(wanted: Any, what: str, *names: str) -> None:
    if not isinstance(wanted, Mapping):
        raise UsageError(f"{what} is asked for by names and values: {', '.join(names)}")
    for name in wanted:
        if name not in names:
            raise UsageError(f"{what} has no {str(name)[:40]!r}; it has {', '.join(names)}")


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) < FARTHEST
    )

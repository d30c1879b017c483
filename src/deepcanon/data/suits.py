"""Suitability: whether data are of the kind that a model learns from, and which embedded data are."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from deepcanon.core import (
    SIZES,
    AnyBatch,
    Blueprint,
    Labeled,
    Model,
    SemiBatch,
    Series,
    UsageError,
    Voted,
    arguments_of,
)
from deepcanon.data.dataset import GIVES, Dataset
from deepcanon.data.load import entries, load_data
from deepcanon.data.tensors import SOURCE as FROM_TENSORS
from deepcanon.data.transforms.forms import PICTURED

FORM_OF: Mapping[str, str] = {"binary": "binary", "spins": "spins", "real": "dequantized"}
"""The form of images and videos for a likelihood of these values."""

KNOWN = ("digits", "karate")
"""Data that come first, since readers know them: images, and a graph."""
UNSEEN = ("breast-cancer",)
"""Data that come last: two classes in the plane, which can be drawn, show more."""
FEW = 4
"""The number of labels per class in the embedded data of semi-supervised methods."""
SOURCES = 6
"""The number of sources that vote in the embedded data of weak supervision."""

Asked = Blueprint | Model[Any] | type[Model[Any]]
"""A model in any state: asked for, built, or its class alone."""


def suits(model: Asked, data: Dataset[Any]) -> bool:
    """Whether a model, and every model in it, can learn from the data.

    >>> from deepcanon.core.toy import Toy
    >>> suits(Toy, load_data("moons")), suits(Toy, load_data("karate"))
    (True, False)
    """
    return mismatch(model, data) is None


def check_suits(model: Asked, data: Dataset[Any]) -> None:
    """Refuse data that a model, or a model in it, cannot learn from."""
    if (reason := mismatch(model, data)) is not None:
        raise UsageError(reason)


def mismatch(model: Asked, data: Dataset[Any]) -> str | None:
    """Why a model, or a model in it, cannot learn from the data; None if all can.

    Of a blueprint or a class the sizes of the data are checked too; a model that is built has its sizes.
    """
    if len(data.train) == 0:
        return f"{data.name} has no training examples"
    if isinstance(model, Model):
        return _other_batch(model.name(), model.batch_type(), data)
    parts = [Blueprint(model)] if isinstance(model, type) else model.everything()
    return next((reason for part in parts if (reason := _mismatch(part, data)) is not None), None)


def learns_from(batch_type: type[AnyBatch]) -> str:
    """The data of this batch type in words; of a method, those of the model that it wraps."""
    return getattr(batch_type, "noun", "what the model it wraps learns from")


def default_data(model: Blueprint) -> Dataset[Any]:
    """The first data set that needs no download and suits the model; its own default comes first, then the digits.

    A model of zeros and ones gets images in their binary form, one of gray levels as whole numbers, a density
    of real numbers dequantized ones, a
    semi-supervised model data with few labels, one of word vectors a text word by word.
    """
    needed = {size for part in model.everything() for size in _needed_sizes(part.cls)}
    needed -= {"levels", "examples", "sources"}  # which forms give, and which all data have
    here = [entry for entry in entries().values() if entry.remote.folder is None]
    names = [entry.name for entry in here if needed <= entry.sizes.keys()]  # so that no others are loaded
    own = model.cls.default_data or _innermost(model).cls.default_data
    semi, voted = (issubclass(model.cls.batch_type(), kind) for kind in (SemiBatch, Voted))
    for name in sorted(names, key=lambda name: (name != own, name not in KNOWN, name in UNSEEN)):
        data = load_data(name)
        if semi and "classes" in data.sizes and type(data.train) is Labeled:
            data = load_data(f"{name}:labels={FEW * data.sizes['classes']}")
        if voted and "classes" in data.sizes and type(data.train) is Labeled:
            data = load_data(f"{name}:votes={SOURCES}")
        if data.kind in PICTURED and "levels" in _needed_sizes(model.cls):
            data = load_data(f"{name}:levels")
        if suits(model, data):
            if data.kind == "text" and hasattr(model.cls, "nearest"):
                return load_data(f"{name}:words")
            form = FORM_OF.get(_values(model, data)) if data.kind in PICTURED else None
            return data if form is None else load_data(f"{name}:{form}")
    raise UsageError(
        f"{model.cls.name()} learns from {learns_from(model.cls.batch_type())}, and none that suit come along: "
        "give --data"
    )


def _mismatch(model: Blueprint, data: Dataset[Any]) -> str | None:
    cls = model.cls
    if (reason := _other_batch(cls.name(), cls.batch_type(), data)) is not None:
        return reason
    known = {"levels"} & model.arguments.keys()  # of images in memory, the caller knows how many gray levels they have
    missing = _needed_sizes(cls) - data.model_sizes.keys() - known
    if "classes" in missing and "targets" in data.sizes:
        labels = f"the column {data.target!r} of {data.name} gives" if data.target else f"{data.name} gives"
        return f"{cls.name()} learns classes; {labels} numbers"
    if "targets" in missing and "classes" in data.sizes:
        return f"{cls.name()} learns numbers; {data.name} gives classes"
    if missing == {"levels"} and data.kind in PICTURED and data.source != FROM_TENSORS:
        return f"{cls.name()} learns gray levels as whole numbers: say {data.name}:levels, or {data.name}:binary"
    if missing:
        return f"{cls.name()} needs {' and '.join(sorted(missing))}, which {data.name} does not have"
    if "edge_features" in data.sizes and "edge_features" not in arguments_of(cls) and cls.batch_type() is not AnyBatch:
        remedy = f"; {data.name}:plain leaves them out" if "graph" in data.preprocessing else ""
        return f"{cls.name()} takes no features of edges, which {data.name} has{remedy}"
    for name, allowed in _fixed_sizes(cls).items():
        if data.sizes[name] not in allowed:
            return (
                f"{cls.name()} learns from {' or '.join(map(str, allowed))} {name}; {data.name} has {data.sizes[name]}"
            )
    return None


def _other_batch(name: str, batch_type: type[AnyBatch], data: Dataset[Any]) -> str | None:
    """Why batches of the data are not of the type that a model of this name learns from."""
    if data.train.is_a(batch_type):
        return None
    if issubclass(batch_type, SemiBatch) and isinstance(data.train, Labeled) and "classes" in data.sizes:
        few = FEW * data.sizes["classes"]
        wanted = f"{name} learns from {learns_from(batch_type)}"
        return f"{wanted}; {data.name} has labels only: say {data.name}:labels={few}"
    if issubclass(batch_type, Voted) and isinstance(data.train, Labeled) and "classes" in data.sizes:
        return f"{name} learns from {learns_from(batch_type)}; {data.name} has labels: say {data.name}:votes={SOURCES}"
    if data.source == FROM_TENSORS:
        return f"{name} learns from {learns_from(batch_type)}; {data.name} gives {data.train.noun}"
    if issubclass(batch_type, Series) and data.kind == "table":
        return (
            f"{name} learns from time series; {data.name} gives rows of a table, unless --time names the column that "
            "says when they are"
        )
    bare = issubclass(batch_type, Labeled) and not hasattr(data.train, "y")
    advice = f" without labels{': name a column by --target' if data.kind == 'table' else ''}" if bare else ""
    return f"{name} learns from {learns_from(batch_type)}; {data.name} gives {GIVES[data.kind]}{advice}"


def _values(model: Blueprint, data: Dataset[Any]) -> str:
    """The values that the model, or the model it wraps, is a distribution of; its arguments may decide that."""
    built = _innermost(model).build(data.model_sizes, data.name)
    return built.support if built.support != "real" or hasattr(built, "log_prob") else "any"


def _innermost(model: Blueprint) -> Blueprint:
    """The model itself, or the one that methods wrap."""
    return next(part for part in model.everything() if not part.inner)


def _needed_sizes(cls: type[Model[Any]]) -> set[str]:
    parameters = arguments_of(cls).items()
    needed = {name for name, each in parameters if name in SIZES and each.default is inspect.Parameter.empty}
    return needed | _fixed_sizes(cls).keys()


def _fixed_sizes(cls: type[Model[Any]]) -> dict[str, tuple[Any, ...]]:
    """The sizes of which a model takes some values only, as ``classes: Literal[2]`` says, and these values."""
    kinds = {name: each.annotation for name, each in arguments_of(cls).items() if name in SIZES}
    return {name: get_args(kind) for name, kind in kinds.items() if get_origin(kind) is Literal}

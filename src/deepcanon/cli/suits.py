"""Whether data are what a model learns from, said before anything is trained."""

from __future__ import annotations

import inspect
from typing import Any, Literal, get_args, get_origin

from deepcanon.cli.arguments import Wanted
from deepcanon.core import SIZES, AnyBatch, Labeled, Model, SemiBatch, UsageError, arguments_of
from deepcanon.data import Dataset, describe_data, load_data

GIVES = {
    "images": "images",
    "points": "points",
    "table": "rows of a table",
    "text": "text",
    "graph": "a graph",
    "sequences": "labeled sequences",
}


FEW = 4
"""How many labels per class are few."""


def food(batch_type: type[AnyBatch]) -> str:
    """What a model of this batch type learns from, in words."""
    return getattr(batch_type, "noun", "what the model it wraps learns from")


def check_suits(model: Wanted, data: Dataset[Any]) -> None:
    """Refuse data that the model, or a model in it, cannot learn from."""
    for part in _all(model):
        if reason := mismatch(part.cls, data):
            raise UsageError(reason)


def mismatch(cls: type[Model[Any]], data: Dataset[Any]) -> str | None:
    """Why the model cannot learn from the data; None if it can."""
    batch_type = cls.batch_type()
    if not data.train.is_a(batch_type):
        if issubclass(batch_type, SemiBatch) and isinstance(data.train, Labeled) and "classes" in data.sizes:
            few = FEW * data.sizes["classes"]
            return f"{cls.name()} learns from {food(batch_type)}; {data.name} has labels only: say {data.name}:labels={few}"
        bare = issubclass(batch_type, Labeled) and not hasattr(data.train, "y")
        advice = f" without labels{': name a column by --target' if data.kind == 'table' else ''}" if bare else ""
        return f"{cls.name()} learns from {food(batch_type)}; {data.name} gives {GIVES[data.kind]}{advice}"
    missing = _needed_sizes(cls) - data.sizes.keys()
    if "classes" in missing and "targets" in data.sizes:
        labels = f"the column {data.target!r} of {data.name} gives" if data.target else f"{data.name} gives"
        return f"{cls.name()} learns classes; {labels} numbers"
    if "targets" in missing and "classes" in data.sizes:
        return f"{cls.name()} learns numbers; {data.name} gives classes"
    if missing:
        return f"{cls.name()} needs {' and '.join(sorted(missing))}, which {data.name} does not have"
    for name, allowed in _fixed_sizes(cls).items():
        if data.sizes[name] not in allowed:
            return (
                f"{cls.name()} learns from {' or '.join(map(str, allowed))} {name}; {data.name} has {data.sizes[name]}"
            )
    return None


def default_data(model: Wanted) -> Dataset[Any]:
    """The first data set that needs no download and that the model can learn from; the digits are asked first.

    A model of zeros and ones gets images in their binary form, one that learns from few labels data with few labels,
    one that finds neighbors of words a text word by word.
    """
    names = [row["name"] for row in describe_data() if row["folder"] is None]
    semi = issubclass(model.cls.batch_type(), SemiBatch)
    for name in sorted(names, key=lambda name: name != "digits"):
        data = load_data(name)
        if semi and "classes" in data.sizes and type(data.train) is Labeled:
            data = load_data(f"{name}:labels={FEW * data.sizes['classes']}")
        if all(mismatch(part.cls, data) is None for part in _all(model)):
            if data.kind == "text" and hasattr(model.cls, "nearest"):
                return load_data(f"{name}:words")
            return load_data(f"{name}:binary") if data.kind == "images" and _of_bits(model, data) else data
    raise UsageError(
        f"{model.cls.name()} learns from {food(model.cls.batch_type())}, and none that suit come along: give --data"
    )


def _of_bits(model: Wanted, data: Dataset[Any]) -> bool:
    """Whether the model, or the model it wraps, is one of zeros and ones; its arguments may decide that."""
    inner = [part for part in _all(model) if not part.parts]
    return any(part.build(data.sizes, data.name).support == "binary" for part in inner)


def _all(model: Wanted) -> list[Wanted]:
    return [model, *(inner for part in model.parts for inner in _all(part))]


def _needed_sizes(cls: type[Model[Any]]) -> set[str]:
    parameters = arguments_of(cls).items()
    needed = {name for name, each in parameters if name in SIZES and each.default is inspect.Parameter.empty}
    return needed | _fixed_sizes(cls).keys()


def _fixed_sizes(cls: type[Model[Any]]) -> dict[str, tuple[Any, ...]]:
    """The sizes of which a model takes some values only, as ``classes: Literal[2]`` says, and these values."""
    kinds = {name: each.annotation for name, each in arguments_of(cls).items() if name in SIZES}
    return {name: get_args(kind) for name, kind in kinds.items() if get_origin(kind) is Literal}

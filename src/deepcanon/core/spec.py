"""A model as plain JSON, ``{"model": name, "arguments": {...}}``, and back: nothing in it names code."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Union, get_args, get_origin

from deepcanon.core.errors import UsageError
from deepcanon.core.model import Model

SIZES = ("features", "channels", "height", "width", "classes", "targets", "vocab", "length", "nodes", "ratings")
"""Constructor arguments that come from the data."""

TRAINER_WORDS = frozenset(
    {"accumulate", "batch_size", "batch_size_schedule", "checkpoint_every", "clip", "data", "deterministic", "device",
     "ema", "epochs", "freeze", "json", "keep", "lr", "optimizer", "out", "overwrite", "patience", "precision",
     "schedule", "seed", "steps", "target", "threads", "watch"}
)  # fmt: skip
"""Words of the trainer and the command line, which no constructor may use."""

Spec = dict[str, Any]


def describe(model: Model[Any]) -> Spec:
    """The model's name and arguments as JSON-able values; a model among the arguments is described in turn.

    >>> from deepcanon.core.toy import Toy
    >>> describe(Toy(features=3))
    {'model': 'Toy', 'arguments': {'features': 3}}
    """
    return {"model": model.name(), "arguments": {name: _plain(value) for name, value in model.hparams.items()}}


def build(spec: Mapping[str, Any], find: Callable[[str], type[Model[Any]]]) -> Model[Any]:
    """The model that a description describes, with classes found by name."""
    cls = find(spec["model"])
    arguments = {name: _rebuilt(value, find) for name, value in spec["arguments"].items()}
    unknown = arguments.keys() - arguments_of(cls).keys()
    if unknown:
        raise UsageError(f"{spec['model']} takes no argument {', '.join(sorted(unknown))}: made by another version?")
    return cls(**arguments)


def arguments_of(cls: type[Model[Any]]) -> dict[str, inspect.Parameter]:
    """The constructor's parameters with their annotations resolved."""
    signature = inspect.signature(cls.__init__, eval_str=True)
    _, *parameters = signature.parameters.values()
    return {parameter.name: parameter for parameter in parameters}


def members_of(annotation: Any) -> tuple[Any, ...]:
    """The types of a union; a type by itself is a union of one."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def is_model(annotation: Any) -> bool:
    """Whether an argument with this annotation is itself a model.

    >>> is_model(Model[Any]), is_model(int | None)
    (True, False)
    """
    origins = [get_origin(member) or member for member in members_of(annotation)]
    return any(isinstance(origin, type) and issubclass(origin, Model) for origin in origins)


def with_sizes(cls: type[Model[Any]], sizes: Mapping[str, int], given: Mapping[str, Any], data: str) -> dict[str, Any]:
    """``given`` completed by the sizes the data has; a size the caller gives may not contradict them.

    >>> from deepcanon.core.toy import Toy
    >>> with_sizes(Toy, {"features": 2, "classes": 3}, {}, "moons")
    {'features': 2}
    """
    arguments = dict(given)
    for name, parameter in arguments_of(cls).items():
        if name not in SIZES:
            continue
        if name in sizes:
            if arguments.setdefault(name, sizes[name]) != sizes[name]:
                raise UsageError(f"{name} is {sizes[name]} in {data}, but {arguments[name]} was given; leave it out")
        elif parameter.default is inspect.Parameter.empty and name not in arguments:
            raise UsageError(f"{cls.name()} needs {name}, which {data} does not have; it has {', '.join(sizes)}")
    return arguments


def _plain(value: Any) -> Any:
    if isinstance(value, Model):
        return describe(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UsageError(f"a constructor argument must be JSON-able or a Model, got {type(value).__name__}")


def _rebuilt(value: Any, find: Callable[[str], type[Model[Any]]]) -> Any:
    if isinstance(value, list):  # constructors take tuples, JSON knows only lists
        return tuple(_rebuilt(item, find) for item in value)
    if isinstance(value, dict):
        if value.keys() == {"model", "arguments"}:
            return build(value, find)
        return {key: _rebuilt(item, find) for key, item in value.items()}
    return value

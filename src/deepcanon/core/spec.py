"""Constructor arguments: which a model takes, which of them are sizes of the data, which are models."""

from __future__ import annotations

import inspect
from collections.abc import Container, Mapping
from typing import Any, get_origin

from deepcanon.core.annotations import members_of
from deepcanon.core.errors import UsageError
from deepcanon.core.model import Model
from deepcanon.core.reading import Reading
from deepcanon.core.settings import listed_options, listed_settings

SIZES = (
    "features", "channels", "height", "width", "levels", "classes", "targets", "vocab", "length", "nodes",
    "edge_features", "covariates", "statics", "ratings", "target_vocab", "padding_token", "begin_token", "end_token",
    "mask_token", "separator_token", "class_token", "examples", "sources",
)  # fmt: skip
"""Constructor arguments that come from the data: sizes, and the ids of special tokens."""

RESERVED = frozenset(
    {*listed_settings(), *listed_options(Reading), "data", "json", "out", "overwrite", "threads"} - {*SIZES}
)
"""Names of training settings and of the command line, which no constructor may use; sizes come from the data."""


def arguments_of(cls: type[Model[Any]]) -> dict[str, inspect.Parameter]:
    """The constructor's parameters with their annotations resolved; what is not annotated may be anything."""
    signature = inspect.signature(cls.__init__, eval_str=True)
    _, *parameters = signature.parameters.values()
    return {each.name: each.replace(annotation=Any) if each.annotation is each.empty else each for each in parameters}


def is_model(annotation: Any) -> bool:
    """Whether an argument with this annotation is itself a model.

    >>> is_model(Model[Any]), is_model(int | None)
    (True, False)
    """
    origins = [get_origin(member) or member for member in members_of(annotation)]
    return any(isinstance(origin, type) and issubclass(origin, Model) for origin in origins)


def wrapped_by_default(cls: type[Model[Any]], given: Container[str]) -> dict[str, str]:
    """The names of the models that ``cls`` wraps where none is given, by argument: its ``default_model``, if any.

    >>> from deepcanon.core.toy import Toy
    >>> wrapped_by_default(Toy, given=())
    {}
    """
    default = getattr(cls, "default_model", None)
    left = {name: parameter for name, parameter in arguments_of(cls).items() if name not in given}
    needed = [name for name, each in left.items() if is_model(each.annotation) and each.default is each.empty]
    return {} if default is None else dict.fromkeys(needed, default)


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
            raise UsageError(
                f"{cls.name()} needs {name}, which {data} does not have; it has {', '.join(sizes) or 'none'}"
            )
    return arguments

"""How a model is written: its docstring, its constructor, and the description it is rebuilt from."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any

from deepcanon.core import RESERVED, Batch, Blueprint, Model, arguments_of, describe
from deepcanon.laws.outcome import Measured, law, violations

SECTION = r"^{name}:\n(?P<body>(?:[ \t]+.*\n?|\n)+)"


@law
def docstring_is_complete(model: Model[Any], batch: Batch) -> Measured:
    """A first sentence, the equation, where it comes from, and every argument."""
    cls = type(model)
    text = inspect.cleandoc(cls.__doc__ or "")
    faults = []
    if not text.partition("\n")[0].endswith("."):
        faults.append("the first line is no sentence that ends with a full stop")
    if ".. math::" not in text and ":math:" not in text:
        faults.append("no equation (.. math::)")
    references = _section(text, "References")
    if not re.search(r"https?://|\b1[5-9]\d\d\b|\b20\d\d\b", references):
        faults.append("no References with a link, or with a year and a publisher")
    described = set(re.findall(r"^\s+\*{0,2}(\w+):", _section(text, "Arguments"), flags=re.MULTILINE))
    faults += [f"the argument {name} is not described" for name in arguments_of(cls) if name not in described]
    return violations(faults, f"{len(described)} arguments described")


@law
def constructor_is_the_configuration(model: Model[Any], batch: Batch) -> Measured:
    """Every argument is annotated and stands for itself, and none is a word of the trainer."""
    arguments = arguments_of(type(model))
    faults = []
    for name, parameter in arguments.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            faults.append(f"{parameter} hides arguments")
        elif parameter.annotation is parameter.empty:
            faults.append(f"{name} is not annotated")
        if name in RESERVED:
            faults.append(f"{name} is a word of the trainer")
    return violations(faults, f"{len(arguments)} arguments")


@law
def spec_round_trip(model: Model[Any], batch: Batch) -> Measured:
    """A model written as JSON and built again is the same model: arguments, and tensors of the same shapes."""
    spec = described(model)
    again = rebuilt(model)
    faults = [f"the argument {name} is not recorded" for name in arguments_of(type(model)) if name not in model.hparams]
    if described(again) != spec:
        faults.append(f"{json.dumps(spec['arguments'])} became {json.dumps(described(again)['arguments'])}")
    shapes, new = ({name: (t.shape, t.dtype) for name, t in _tensors(m)} for m in (model, again))
    faults += [f"the tensor {name} is not the same again" for name in shapes if shapes[name] != new.get(name)]
    faults += [f"the tensor {name} is new" for name in new if name not in shapes]
    return violations(faults, f"{len(spec['arguments'])} arguments and {len(shapes)} tensors came back")


def described(model: Model[Any]) -> Any:
    """The model's description after a way through JSON."""
    return json.loads(json.dumps(describe(model)))


def rebuilt(model: Model[Any]) -> Model[Any]:
    """A new model from the description of this one; classes are those of the model and of the models inside it."""
    classes: dict[str, type[Model[Any]]] = {}
    _collect(model, classes)
    return Blueprint.from_json(described(model), classes.__getitem__).build()


def _collect(value: Any, into: dict[str, type[Model[Any]]]) -> None:
    if isinstance(value, Model):
        into[value.name()] = type(value)
        _collect(value.hparams, into)
    elif isinstance(value, Mapping):
        _collect(tuple(value.values()), into)
    elif isinstance(value, tuple | list):
        for part in value:
            _collect(part, into)


def _tensors(model: Model[Any]) -> Any:
    return (*model.named_parameters(), *model.named_buffers())


def _section(text: str, name: str) -> str:
    found = re.search(SECTION.format(name=name), text, flags=re.MULTILINE)
    return found["body"] if found else ""

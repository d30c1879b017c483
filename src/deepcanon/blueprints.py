"""Blueprints from words: ``vae:latent=4`` in Python, ``--model vae --model.latent 8`` on the command line.

In place of a name of the catalogue, ``FILE.py:Class`` or ``MODULE:Class`` names a class of the user's own. Values are
read by the annotations of the constructor. An argument that is itself a model takes a name, and its own arguments
follow after a dot; or it takes the folder of a run, for the model that was trained there.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from deepcanon.catalogue import find, is_name
from deepcanon.core import RESERVED, Blueprint, Model, UsageError, arguments_of
from deepcanon.core.annotations import describe_type, members_of, read_value
from deepcanon.core.hints import as_option as _option
from deepcanon.core.hints import unknown_option
from deepcanon.core.named_code import load_named, names_code
from deepcanon.core.options import split
from deepcanon.core.spec import is_model, wrapped_by_default

Classes = str | type[Model[Any]] | Model[Any] | Sequence["str | type[Model[Any]] | Model[Any]"]
"""Classes outside the catalogue: themselves, or code that the user names; a model stands for its class."""

Options = Mapping[str, Sequence[str]]
"""Options with the words that followed each of them, none for a flag."""


def blueprint(model: Any, arguments: Mapping[str, Any] | None = None) -> Blueprint:
    """The blueprint of a model given by name, ``name:argument=value``, class, instance, or as a blueprint.

    A slash separates the values of one argument.

    >>> blueprint("mlp:hidden=64/32").arguments
    {'hidden': (64, 32)}
    """
    if isinstance(model, str) and is_code(model):
        return Blueprint.of(named(model), find, _trained_inside(arguments))
    if isinstance(model, str) and ":" in model:
        code, colon, rest = model.rpartition(":")
        own = colon and is_code(code)
        name, options = split(f"own:{rest}") if own else split(model)
        cls = named(code) if own else find(name)
        if isinstance(cls, Model):
            raise UsageError(f"{code} is a model that has its arguments already: leave out {rest}")
        inner = {key for key, parameter in arguments_of(cls).items() if is_model(parameter.annotation)}
        words = {key: [value] if key in inner else value.split("/") for key, value in options.items()}
        asked = from_options(cls, words, prefix="")
        return Blueprint.of(asked, find, _trained_inside(arguments)) if arguments else replace(asked, label=model)
    return Blueprint.of(model, find, _trained_inside(arguments))


def _trained_inside(arguments: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The arguments with the trained model in place of the folder of a run."""
    if not isinstance(arguments, Mapping):
        return arguments
    return {name: trained(value) if _is_run(value) else value for name, value in arguments.items()}


def _is_run(value: Any) -> bool:
    return isinstance(value, str | Path) and (Path(value) / "run.json").is_file()


def is_code(name: str) -> bool:
    """Whether this names code of the user's, ``FILE.py:Class`` or ``MODULE:Class``, and no model of the catalogue."""
    return names_code(name) and not is_name(name.partition(":")[0])


def named(name: str) -> type[Model[Any]] | Model[Any]:
    """The class that a user names: one of the catalogue, or of code; or the model that a function there makes.

    Whoever calls it runs that code, so the name must be the user's own words, never those of a file.
    """
    if not is_code(name):
        if name.endswith(".py"):
            raise UsageError(f"which class of {name}? Write {name}:Class")
        return find(name)
    thing, word = load_named(name), name.rpartition(":")[2]
    if callable(thing) and not isinstance(thing, type | nn.Module):
        try:
            made = thing()
        except Exception as error:
            raise UsageError(f"{word}() failed with {type(error).__name__}: {error}") from error
        thing = made[0] if isinstance(made, tuple | list) and made else made
    if isinstance(thing, Model):
        return thing
    if not (isinstance(thing, type) and issubclass(thing, Model)):
        kind = thing.__name__ if isinstance(thing, type) else type(thing).__name__
        raise UsageError(
            f"{name} gives a {kind}, which is not a deepcanon.Model: derive it from that, or name a function that "
            "returns deepcanon.PlainModule(module, loss)"
        )
    if missing := sorted(thing.__abstractmethods__):
        raise UsageError(f"{name} does not define {' and '.join(missing)}, which every model does")
    if taken := sorted(arguments_of(thing).keys() & RESERVED):
        raise UsageError(f"the argument {taken[0]} of {name} is called as an option of the training: rename it")
    return thing


def from_words(name: str, options: Options, others: Sequence[str] = (), own: Classes = ()) -> Blueprint:
    """The model of this name, or of the user's code, that options ask for; ``own`` are the classes of runs in it."""
    found = named(name)
    if isinstance(found, Model) and options:
        raise UsageError(f"{name} has its arguments already: leave out {_option('--', next(iter(options)))}")
    asked = Blueprint.of(found, find) if isinstance(found, Model) else from_options(found, options, others, own=own)
    if own and all(part.trained is None for part in asked.inner):
        raise UsageError("--class names a class of a run, and no run is named here: leave it out")
    return asked


def from_options(
    cls: type[Model[Any]], options: Options, others: Sequence[str] = (), prefix: str = "--", own: Classes = ()
) -> Blueprint:
    """The model that options ask for; ``others`` are the command's own options, for advice on a misspelling."""
    parameters = arguments_of(cls)
    options = {**{name: [wrapped] for name, wrapped in wrapped_by_default(cls, options).items()}, **options}
    asked = Blueprint(cls, read_arguments(cls.name(), parameters, options, others, prefix, own))
    needed = {_option(prefix, name): describe_type(parameters[name].annotation) for name in asked.missing()}
    if missing := [f"{option} ({takes})" for option, takes in needed.items()]:
        raise UsageError(f"{cls.name()} needs {' and '.join(missing)}")
    return asked


def read_arguments(
    owner: str,
    parameters: Mapping[str, inspect.Parameter],
    options: Options,
    others: Sequence[str] = (),
    prefix: str = "--",
    own: Classes = (),
) -> dict[str, Any]:
    """The arguments that the options give to the owner of these parameters, which ``deepcanon show`` can show."""
    arguments: dict[str, Any] = {}
    for option, words in options.items():
        name, dot, _ = option.partition(".")
        if switches_off(name, words, parameters):
            arguments[name.removeprefix("no_")] = False
            continue
        if name not in parameters:
            raise unknown_option(owner, name, prefix, [*parameters, *others])
        annotation = parameters[name].annotation
        if is_model(annotation):
            if name not in options:
                raise UsageError(f"{_option(prefix, option)} belongs to which model? Add {_option(prefix, name)} NAME")
            if not dot:
                arguments[name] = _inner(name, options, prefix, own)
        elif dot:
            raise UsageError(f"{_option(prefix, name)} of {owner} is not a model, so it has no {_option('', option)}")
        else:
            arguments[name] = read_value(_option(prefix, name), words, annotation)
    return arguments


def switches_off(name: str, words: Sequence[str], parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether this is ``--no-x`` for an argument x that is true or false."""
    positive = parameters.get(name.removeprefix("no_")) if name.startswith("no_") and name not in parameters else None
    return positive is not None and not words and bool in members_of(positive.annotation)


def _inner(name: str, options: Options, prefix: str, classes: Classes) -> Blueprint:
    """The model that ``--name`` asks for, with the arguments after ``--name.``, or that of a run."""
    if len(options[name]) != 1:
        raise UsageError(
            f"{_option(prefix, name)} takes the name of one model or the folder of a run, "
            f"got {' '.join(options[name])!r}"
        )
    (word,) = options[name]
    own = {option.removeprefix(f"{name}."): words for option, words in options.items() if option.startswith(f"{name}.")}
    if is_code(word) or (len(Path(word).parts) == 1 and (is_name(word) or not Path(word).is_dir())):
        found = named(word)
        if not isinstance(found, Model):
            return from_options(found, own, prefix=f"{prefix}{name}.", own=classes)
        if not own:
            return Blueprint.of(found, find)
    if own:
        extra = _option(prefix, f"{name}.{next(iter(own))}")
        raise UsageError(f"the model of {word} is as it was trained: leave out {extra}")
    return trained(word, classes)


def trained(run: str | Path, own: Classes = ()) -> Blueprint:
    """The blueprint of a model that a run has trained; ``own`` are its classes outside the catalogue."""
    from deepcanon.runs.resume import load

    model = load(run, own)
    return Blueprint(type(model), {}, f"the model of {run}", model)


def untrained(asked: Blueprint) -> list[str]:
    """What is to be said where a method that is meant for a trained model gets one that is not."""
    pairs = [(part.cls, inner) for part in asked.everything() for inner in part.inner]
    return [
        f"{cls.name()} is meant for a trained model, and this {inner.cls.name()} is not: "
        "--model DIR takes that of a run."
        for cls, inner in pairs
        if getattr(cls, "wraps_trained", False) and inner.trained is None
    ]

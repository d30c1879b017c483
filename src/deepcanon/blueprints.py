"""Blueprints from words: ``vae:latent=4`` in Python, ``--model vae --model.latent 8`` on the command line.

Values are read by the annotations of the constructor. An argument that is itself a model takes a name, and its own
arguments follow after a dot; or it takes the folder of a run, for the model that was trained there.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deepcanon.catalogue import find, is_name
from deepcanon.core import Blueprint, Model, UsageError, arguments_of
from deepcanon.core.annotations import describe_type, members_of, read_value
from deepcanon.core.hints import did_you_mean
from deepcanon.core.options import split
from deepcanon.core.spec import is_model, wrapped_by_default

Options = Mapping[str, Sequence[str]]
"""Options with the words that followed each of them, none for a flag."""


def blueprint(model: Any, arguments: Mapping[str, Any] | None = None) -> Blueprint:
    """The blueprint of a model given by name, ``name:argument=value``, class, instance, or as a blueprint.

    A slash separates the values of one argument.

    >>> blueprint("mlp:hidden=64/32").arguments
    {'hidden': (64, 32)}
    """
    if isinstance(model, str) and ":" in model:
        name, options = split(model)
        cls = find(name)
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


def from_options(cls: type[Model[Any]], options: Options, others: Sequence[str] = (), prefix: str = "--") -> Blueprint:
    """The model that options ask for; ``others`` are the command's own options, for advice on a misspelling."""
    parameters = arguments_of(cls)
    options = {**{name: [wrapped] for name, wrapped in wrapped_by_default(cls, options).items()}, **options}
    asked = Blueprint(cls, read_arguments(cls.name(), parameters, options, others, prefix))
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
) -> dict[str, Any]:
    """The arguments that the options give to the owner of these parameters, which ``deepcanon show`` can show."""
    arguments: dict[str, Any] = {}
    for option, words in options.items():
        name, dot, _ = option.partition(".")
        if switches_off(name, words, parameters):
            arguments[name.removeprefix("no_")] = False
            continue
        if name not in parameters:
            raise _unknown(owner, name, prefix, [*parameters, *others])
        annotation = parameters[name].annotation
        if is_model(annotation):
            if name not in options:
                raise UsageError(f"{_option(prefix, option)} belongs to which model? Add {_option(prefix, name)} NAME")
            if not dot:
                arguments[name] = _inner(name, options, prefix)
        elif dot:
            raise UsageError(f"{_option(prefix, name)} of {owner} is not a model, so it has no {_option('', option)}")
        else:
            arguments[name] = read_value(_option(prefix, name), words, annotation)
    return arguments


def switches_off(name: str, words: Sequence[str], parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether this is ``--no-x`` for an argument x that is true or false."""
    positive = parameters.get(name.removeprefix("no_")) if name.startswith("no_") and name not in parameters else None
    return positive is not None and not words and bool in members_of(positive.annotation)


def _inner(name: str, options: Options, prefix: str) -> Blueprint:
    """The model that ``--name`` asks for, with the arguments after ``--name.``, or that of a run."""
    if len(options[name]) != 1:
        raise UsageError(
            f"{_option(prefix, name)} takes the name of one model or the folder of a run, "
            f"got {' '.join(options[name])!r}"
        )
    (word,) = options[name]
    own = {option.removeprefix(f"{name}."): words for option, words in options.items() if option.startswith(f"{name}.")}
    if len(Path(word).parts) == 1 and (is_name(word) or not Path(word).is_dir()):
        return from_options(find(word), own, prefix=f"{prefix}{name}.")
    if own:
        extra = _option(prefix, f"{name}.{next(iter(own))}")
        raise UsageError(f"the model of {word} is as it was trained: leave out {extra}")
    return trained(word)


def trained(run: str | Path) -> Blueprint:
    """The blueprint of a model that a run has trained."""
    from deepcanon.runs.resume import load

    model = load(run)
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


def _unknown(owner: str, name: str, prefix: str, known: Sequence[str]) -> UsageError:
    otherwise = f"'deepcanon show {owner}' lists what it takes"
    advice = did_you_mean(name, known, otherwise, lambda near: _option(prefix, near))
    return UsageError(f"{owner} takes no {_option(prefix, name)}; {advice}")


def _option(prefix: str, name: str) -> str:
    return f"{prefix}{name}".replace("_", "-")

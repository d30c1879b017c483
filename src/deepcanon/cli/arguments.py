"""Constructor arguments on the command line: ``--hidden 64,64 --model vae --model.latent 8``.

Options a command does not know itself are matched against the constructor of the model, or the arguments of an insight
or a study, and their values are checked by the annotations. An argument that is itself a model takes a name, and its
own arguments follow after a dot; or it takes the folder of a run, for the model that was trained there.
"""

from __future__ import annotations

import difflib
import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter

from deepcanon.catalogue import find
from deepcanon.core import SIZES, Model, UsageError, arguments_of, with_sizes
from deepcanon.core.spec import is_model, members_of
from deepcanon.train import Run

Options = Mapping[str, Sequence[str]]
"""What stood on the command line: the words that followed each option, none for a flag."""


@dataclass(frozen=True)
class Wanted:
    """A model that is asked for but not built yet, since its sizes come from the data."""

    cls: type[Model[Any]]
    arguments: Mapping[str, Any]
    run: Path | None = None
    """The run that holds it, where a trained model is asked for."""

    @property
    def parts(self) -> tuple[Wanted, ...]:
        """The models among the arguments."""
        return tuple(value for value in self.arguments.values() if isinstance(value, Wanted))

    def changed(self, changes: Mapping[str, Any]) -> Wanted:
        """The same model with some of its arguments changed."""
        return replace(self, arguments={**self.arguments, **changes})

    def build(self, sizes: Mapping[str, int], data: str) -> Model[Any]:
        """The model, with the sizes it needs filled from the data, or as its run has left it."""
        if self.run is not None:
            return _trained(self.run, sizes, data)
        # A method that takes the number of classes itself gives a trained model another head.
        own = {"classes"} & arguments_of(self.cls).keys()
        kept = {name: size for name, size in sizes.items() if name not in own}
        given = {
            name: value.build(sizes if value.run is None else kept, data) if isinstance(value, Wanted) else value
            for name, value in self.arguments.items()
        }
        return self.cls(**with_sizes(self.cls, sizes, given, data))


def read_options(words: Iterable[str]) -> dict[str, list[str]]:
    """The words after each option.

    >>> read_options(["--hidden", "64", "64", "--model.no-bias", "--rate=-0.5"])
    {'hidden': ['64', '64'], 'model.no_bias': [], 'rate': ['-0.5']}
    """
    options: dict[str, list[str]] = {}
    values: list[str] | None = None
    for word in words:
        if word.startswith("-") and not _is_number(word):
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("-", "_")
            if name in options:
                raise UsageError(f"{_option('--', name)} is given twice")
            values = options[name] = [value] if equals else []
        elif values is None:
            raise UsageError(f"what is {word!r}? The name of the model comes first, everything else follows an option")
        else:
            values.append(word)
    return options


def wanted(cls: type[Model[Any]], options: Options, others: Sequence[str] = (), prefix: str = "--") -> Wanted:
    """The model that the options ask for; ``others`` are the command's own options, for advice on a misspelling."""
    parameters = arguments_of(cls)
    arguments = given(cls.name(), parameters, options, others, prefix)
    missing = [
        f"{_option(prefix, name)} ({describe_type(parameter.annotation)})"
        for name, parameter in parameters.items()
        if name not in arguments and name not in SIZES and parameter.default is inspect.Parameter.empty
    ]
    if missing:
        raise UsageError(f"{cls.name()} needs {' and '.join(missing)}")
    return Wanted(cls, arguments)


def given(
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
                arguments[name] = _part(name, options, prefix)
        elif dot:
            raise UsageError(f"{_option(prefix, name)} of {owner} is no model, so it has no {_option('', option)}")
        else:
            arguments[name] = read_value(_option(prefix, name), words, annotation)
    return arguments


def read_value(option: str, words: Sequence[str], annotation: Any) -> Any:
    """The words as a value of the annotated type.

    >>> read_value("--hidden", ["64,32"], tuple[int, ...])
    (64, 32)
    >>> read_value("--dropout", ["none"], float | None) is None
    True
    """
    members = members_of(annotation)
    if not words:
        if bool in members:
            return True
        raise UsageError(f"{option} needs a value: {describe_type(annotation)}")
    for member in sorted(members, key=lambda member: member is str):  # every word is text, so text comes last
        try:
            return _read_as(member, words)
        except ValueError:
            continue
    raise UsageError(f"{option} takes {describe_type(annotation)}, got {' '.join(words)!r}")


def describe_type(annotation: Any) -> str:
    """The type in words.

    >>> describe_type(tuple[int, ...] | None)
    'whole numbers with commas between them or none'
    """
    return " or ".join(_in_words(member) for member in members_of(annotation))


def show_value(value: Any) -> str:
    """A value as it is written on the command line.

    >>> show_value((64, 64)), show_value(None), show_value(True)
    ('64,64', 'none', 'true')
    """
    if isinstance(value, tuple | list):
        return ",".join(show_value(item) for item in value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _part(name: str, options: Options, prefix: str) -> Wanted:
    """The model that ``--name`` asks for, with the arguments that stand behind ``--name.``, or that of a run."""
    if len(options[name]) != 1:
        raise UsageError(
            f"{_option(prefix, name)} takes the name of one model or the folder of a run, "
            f"got {' '.join(options[name])!r}"
        )
    (word,) = options[name]
    inner = {
        option.removeprefix(f"{name}."): words for option, words in options.items() if option.startswith(f"{name}.")
    }
    if len(Path(word).parts) == 1 and not Path(word).is_dir():
        return wanted(find(word), inner, prefix=f"{prefix}{name}.")
    run = Run.open(word)
    if inner:
        extra = _option(prefix, f"{name}.{next(iter(inner))}")
        raise UsageError(f"the model of {word} is as it was trained: leave out {extra}")
    return Wanted(find(run.info["model"]["model"]), {}, run.dir)


def _trained(run: Path, sizes: Mapping[str, int], data: str) -> Model[Any]:
    """The model of a run, if data of these sizes suit it."""
    import deepcanon

    model = deepcanon.load(run)
    for name, size in sizes.items():
        if model.hparams.get(name, size) not in (size, None):
            raise UsageError(f"{name} is {size} in {data}, but {model.hparams[name]} in the model of {run}")
    return model


def switches_off(name: str, words: Sequence[str], parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether this is ``--no-x`` for an argument x that is true or false."""
    positive = parameters.get(name.removeprefix("no_")) if name.startswith("no_") and name not in parameters else None
    return positive is not None and not words and bool in members_of(positive.annotation)


def _unknown(owner: str, name: str, prefix: str, known: Sequence[str]) -> UsageError:
    near = difflib.get_close_matches(name, known, n=1)
    advice = f"did you mean {_option(prefix, near[0])}?" if near else f"'deepcanon show {owner}' tells what it takes"
    return UsageError(f"{owner} takes no {_option(prefix, name)}; {advice}")


def _option(prefix: str, name: str) -> str:
    return f"{prefix}{name}".replace("_", "-")


def _read_as(member: Any, words: Sequence[str]) -> Any:
    """The words as this type; pydantic's ValidationError is a ValueError like those raised here."""
    if _is_sequence(member):
        return _reader(member).validate_python([item for word in words for item in word.split(",") if item.strip()])
    (word,) = words  # more than one word is a ValueError, too
    if member is types.NoneType:
        choices: dict[str, Any] = {"none": None}
    elif get_origin(member) is Literal:
        choices = {show_value(choice).lower(): choice for choice in get_args(member)}
    else:
        return _reader(member).validate_python(word)
    if word.lower() not in choices:
        raise ValueError(word)
    return choices[word.lower()]


def _reader(member: Any) -> TypeAdapter[Any]:
    """Reads values of this type; the numbers that no model can be built with, infinite ones and nan, are none."""
    return TypeAdapter(member, config=ConfigDict(allow_inf_nan=False))


def _is_sequence(member: Any) -> bool:
    origin = get_origin(member) or member
    return isinstance(origin, type) and issubclass(origin, Sequence) and origin is not str


def _is_number(word: str) -> bool:
    try:
        float(word.partition(",")[0])
    except ValueError:
        return False
    return True


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", types.NoneType: "none"}
_PLURALS = {int: "whole numbers", float: "numbers", str: "words"}


def _in_words(member: Any) -> str:
    if get_origin(member) is Literal:
        return "one of " + ", ".join(show_value(choice) for choice in get_args(member))
    if _is_sequence(member):
        first, *rest = get_args(member) or (Any,)
        count = f"{1 + len(rest)} " if get_origin(member) is tuple and Ellipsis not in rest else ""
        return f"{count}{_PLURALS.get(first, 'values')} with commas between them"
    if is_model(member):
        return "the name of a model or the folder of a run"
    return _WORDS.get(member, getattr(member, "__name__", str(member)))

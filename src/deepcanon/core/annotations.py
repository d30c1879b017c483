"""Values by their annotations: read from words, written as words, and described for people."""

from __future__ import annotations

import re
import types
from collections.abc import Sequence
from typing import Any, Literal, Union, get_args, get_origin

from deepcanon.core.errors import UsageError
from deepcanon.core.settings import LARGEST

UNKNOWN = (int, float, bool, types.NoneType, tuple[int, ...], tuple[float, ...], str)
"""What a word is tried as where nothing is annotated, in this order."""


def members_of(annotation: Any) -> tuple[Any, ...]:
    """The types of a union; a single type is a union of one."""
    if annotation is Any:
        return UNKNOWN
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


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
    limit = " below 2^63" if any(len(digits) > 18 for word in words for digits in re.findall(r"\d+", word)) else ""
    raise UsageError(f"{option} takes {describe_type(annotation)}{limit}, got {' '.join(words)!r}")


def describe_type(annotation: Any) -> str:
    """The type in words.

    >>> describe_type(tuple[int, ...] | None)
    'whole numbers with commas between them or none'
    """
    return "a value" if annotation is Any else " or ".join(_in_words(member) for member in members_of(annotation))


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


def _read_as(member: Any, words: Sequence[str]) -> Any:
    """The words as this type; pydantic's ValidationError is a ValueError like those raised here."""
    if _is_sequence(member):
        return _validated(member, [item for word in words for item in word.split(",") if item.strip()])
    (word,) = words  # more than one word is a ValueError, too
    if member is types.NoneType:
        choices: dict[str, Any] = {"none": None}
    elif get_origin(member) is Literal:
        choices = {show_value(choice).lower(): choice for choice in get_args(member)}
    else:
        return _validated(member, word)
    if word.lower() not in choices:
        raise ValueError(word)
    return choices[word.lower()]


def _validated(member: Any, value: Any) -> Any:
    """The value as this type; numbers that no model can be built with, infinite ones and nan, are refused."""
    from pydantic import ConfigDict, TypeAdapter

    read = TypeAdapter(member, config=ConfigDict(allow_inf_nan=False)).validate_python(value)
    for number in read if isinstance(read, tuple | list) else (read,):
        if isinstance(number, int) and abs(number) > LARGEST:
            raise ValueError(number)
    return read


def _is_sequence(member: Any) -> bool:
    origin = get_origin(member) or member
    return isinstance(origin, type) and issubclass(origin, Sequence) and origin is not str


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", types.NoneType: "none"}
_PLURALS = {int: "whole numbers", float: "numbers", str: "words"}


def _in_words(member: Any) -> str:
    if get_origin(member) is Literal:
        return "one of " + ", ".join(show_value(choice) for choice in get_args(member))
    if _is_sequence(member):
        first, *rest = get_args(member) or (Any,)
        count = f"{1 + len(rest)} " if get_origin(member) is tuple and Ellipsis not in rest else ""
        return f"{count}{_PLURALS.get(first, 'values')} with commas between them"
    name = getattr(get_origin(member) or member, "__name__", str(member))
    return "the name of a model or the folder of a run" if name == "Model" else _WORDS.get(member, name)

"""Names with options, written one way everywhere: ``sgd:momentum=0.9,nesterov=true``."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

from deepcanon.core.errors import UsageError
from deepcanon.core.hints import unknown
from deepcanon.core.settings import LARGEST

Value = bool | int | float | str | None | tuple[Any, ...]


def split(text: str) -> tuple[str, dict[str, str]]:
    """The name and its options, each with its value as it is written.

    >>> split("vae:latent=4,hidden=64/32")
    ('vae', {'latent': '4', 'hidden': '64/32'})
    """
    name, _, rest = text.partition(":")
    options: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"options are written name:option=value,option=value; got {text!r}")
        options[_plain(key)] = value.strip()
    return _plain(name), options


def parse(text: str) -> tuple[str, dict[str, Value]]:
    """The name and its options, with numbers, truth values and tuples read as such.

    >>> parse("adam:betas=0.5/0.999,weight_decay=1e-4")
    ('adam', {'betas': (0.5, 0.999), 'weight_decay': 0.0001})
    >>> parse("one-cycle")
    ('one_cycle', {})
    """
    name, options = split(text)
    return name, {key: _value(value) for key, value in options.items()}


def choose(what: str, name: str, names: Iterable[str]) -> None:
    """Refuse a name that is not among ``names``, with the nearest one as advice."""
    names = list(names)
    if name not in names:
        raise unknown(what, name, names, f"there are {', '.join(names)}")


def check_options(what: str, function: Callable[..., Any], options: Iterable[str], own: Iterable[str]) -> None:
    """Refuse options that ``function`` does not take; the parameters in ``own`` are not the user's to set."""
    known = [name for name in inspect.signature(function).parameters if name not in {*own, "self"}]
    for option in options:
        if option not in known:
            raise UsageError(f"{what} has no option {option!r}; it has {', '.join(known) or 'none'}")


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def _value(text: str) -> Value:
    if "/" in text:
        return tuple(_value(part) for part in text.split("/"))
    words: dict[str, Value] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if not math.isfinite(number) or (kind is int and abs(number) > LARGEST):
            raise UsageError(f"the number of an option is finite, and a whole one below 2^63 (got {text})")
        return number
    return text

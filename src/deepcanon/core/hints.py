"""Hints for a name that is not known: the nearest one, or all of them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from deepcanon.core.errors import UsageError

MOST = 12
"""More names than these are not listed."""


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str | None = None, show: Callable[[str], str] = str, most: int = 1
) -> str:
    """The nearest known names, as they are to be shown; where none is near, ``otherwise``, or all of them.

    >>> did_you_mean("digist", ["digits", "moons"])
    'did you mean digits?'
    >>> did_you_mean("cats", ["digits", "moons"])
    'there are digits, moons'
    """
    names = list(known)
    folded = name.lower().replace("-", "_")
    near = difflib.get_close_matches(folded, names, n=most) or difflib.get_close_matches(name, names, n=most)
    if near:
        return f"did you mean {' or '.join(map(show, near))}?"
    return f"there are {listed(names)}" if otherwise is None else otherwise


def unknown(kind: str, name: str, known: Iterable[str], otherwise: str | None = None) -> UsageError:
    """The error for a name that is not among the known ones.

    >>> unknown("model", "vea", ["mlp", "vae"])
    UsageError("there is no model 'vea'; did you mean vae?")
    """
    return UsageError(f"there is no {kind} {name!r}; {did_you_mean(name, known, otherwise)}")


def unknown_option(owner: str, name: str, prefix: str, known: Iterable[str]) -> UsageError:
    """The error for an option that a model, an insight or a study does not take.

    >>> unknown_option("mlp", "hiden", "--", ["hidden"])
    UsageError('mlp takes no --hiden; did you mean --hidden?')
    """
    otherwise = f"'deepcanon show {owner}' lists what it takes"
    advice = did_you_mean(name, known, otherwise, lambda near: as_option(prefix, near))
    return UsageError(f"{owner} takes no {as_option(prefix, name)}; {advice}")


def as_option(prefix: str, name: str) -> str:
    """An argument as it is written as an option.

    >>> as_option("--", "batch_size")
    '--batch-size'
    """
    return f"{prefix}{name}".replace("_", "-")


def listed(names: Iterable[str]) -> str:
    """Names one after the other, the first dozen of them.

    >>> listed(["red", ""])
    'red, (missing)'
    """
    shown = [name or "(missing)" for name in names]
    more = f" and {len(shown) - MOST} more" if len(shown) > MOST else ""
    return ", ".join(shown[:MOST]) + more

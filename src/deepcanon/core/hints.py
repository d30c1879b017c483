"""Suggestions for an unknown name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST = 12
"""More names than these are not listed."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The nearest known name, or all of them.

    >>> did_you_mean("digist", ["digits", "moons"])
    'did you mean digits?'
    >>> did_you_mean("cats", ["digits", "moons"])
    'there are digits, moons'
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {listed(names)}"


def listed(names: Iterable[str]) -> str:
    """Names one after the other, the first dozen of them.

    >>> listed(["red", ""])
    'red, (missing)'
    """
    shown = [name or "(missing)" for name in names]
    more = f" and {len(shown) - MOST} more" if len(shown) > MOST else ""
    return ", ".join(shown[:MOST]) + more

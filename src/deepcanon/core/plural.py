"""Counted things in words."""

from __future__ import annotations


def counted(count: int, noun: str, form: str = "", plural: str | None = None) -> str:
    """So many things: the noun in the singular for one, else in the plural, which ends in s unless it is given.

    >>> counted(1, "hidden layer"), counted(0, "hidden layer"), counted(1200, "class", ",", "classes")
    ('1 hidden layer', '0 hidden layers', '1,200 classes')
    """
    return f"{count:{form}} {noun if count == 1 else plural or f'{noun}s'}"

"""Errors of the library; each message says what was expected, what was given and what to do."""

from __future__ import annotations

import re

LONGEST_VALUE = 300
"""A value, in quotes or without spaces, is shown in a message up to so many characters."""

LONGEST_MESSAGE = 3000
"""A message is not longer than so many characters."""

_LONG = re.compile(
    "|".join([*(rf"(?<!\w){q}(?:[^{q}\\]|\\.){{{LONGEST_VALUE},}}{q}" for q in "'\""), rf"\S{{{LONGEST_VALUE},}}"])
)


def brief(message: str) -> str:
    """The message with long values in it cut, which a file or a command line may hold of any length.

    >>> len(brief(f"there is no column {'long ' * 1000!r}; did you mean short?"))
    340
    """
    cut = _LONG.sub(lambda value: shortened(value[0], LONGEST_VALUE), message)
    return cut if len(cut) <= LONGEST_MESSAGE else f"{cut[: LONGEST_MESSAGE // 2]} ... {cut[-LONGEST_MESSAGE // 3 :]}"


def shortened(text: str, most: int) -> str:
    """The beginning of a text that is longer than ``most`` characters, and how long it is.

    >>> shortened("abcdefghij" * 5, 20)
    'a... (50 characters)'
    """
    if len(text) <= most:
        return text
    rest = f"... ({len(text):,} characters)"
    return f"{text[: most - len(rest)]}{rest}"


class DeepcanonError(Exception):
    """An error that a user can understand and mend; the command line prints it as one sentence."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(brief(each) if isinstance(each, str) else each for each in arguments))


class UsageError(DeepcanonError, ValueError):
    """A wrong argument, name, value or data set; the command line exits with 2."""


class DataError(UsageError):
    """Data that are missing, damaged or of the wrong form."""


class DownloadError(DeepcanonError):
    """A download that could not be completed or did not match its checksum."""


class CheckpointError(DeepcanonError):
    """A run or checkpoint that is missing, damaged or could not be written."""


class DivergenceError(DeepcanonError):
    """Training that produced NaN, infinity or an exploding loss."""


class EvaluationError(DeepcanonError):
    """A model that is trained and kept, whose evaluation or pictures failed."""


class MemoryLimitError(UsageError):
    """A request for more memory than there is."""

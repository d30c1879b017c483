"""Dates as texts: in which form a column writes them, and their days since 1970.

Forms in which the order of day and month can be told apart are read: ISO 8601 with or without a time of day, year
first, day first with points, the month by its name, with a clock of twelve hours the month first, and, where a day
above 12 says which one it is, slashes or dashes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

WRITTEN = (
    "%Y/%m/%d",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d-%b-%Y",
    "%d %b %Y %H:%M",
    "%d-%b-%Y %H:%M:%S",
    "%b %Y",
    "%B %Y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%Y %I:%M:%S %p",
    "%m-%d-%Y",
    "%d-%m-%Y",
)
"""The forms besides ISO 8601."""

ISO = "ISO 8601"
"""The form of 2024-01-31 and 2024-01-31T12:30:00+01:00."""

SHARE = 0.9
"""A column whose different texts are dates by this share and more holds dates; what is none is a mistake."""

PEEK = 50
"""The texts by which a form is ruled out, before all are read."""

EPOCH = datetime(1970, 1, 1)


def form_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The forms in which these texts are dates: none, one, or two that cannot be told apart.

    >>> form_of(["2024-01-31", "2024-02-01 12:30"]), form_of(["31/01/2024"]), form_of(["02/01/2024"])
    (('ISO 8601',), ('%d/%m/%Y',), ('%m/%d/%Y', '%d/%m/%Y'))
    >>> form_of(["1st of May"]), form_of(["1 May 2024"])
    ((), ('%d %b %Y',))
    """
    if not texts or not any(character.isdigit() for character in texts[0]):
        return ()
    shares = {form: _share(texts[:PEEK], form) for form in (ISO, *WRITTEN)}
    likely = [form for form, share in shares.items() if share >= SHARE]
    found = {form: days(texts, form) for form in likely}
    shares = {form: float(np.isfinite(values).mean()) for form, values in found.items()}
    most = max(shares.values(), default=0.0)
    best = {found[form].tobytes(): form for form in reversed(likely) if shares[form] == most}  # "May" is short and long
    return tuple(reversed(best.values())) if most >= SHARE else ()


def days(texts: Iterable[str], form: str) -> NDArray[np.float64]:
    """The days since 1970 of each text, in UTC where it has a zone; NaN of an empty one, else infinity.

    >>> days(["1970-01-02", "1970-01-01T12:00", "", "soon"], ISO)
    array([1. , 0.5, nan, inf])
    """
    read = _reader(form)
    return np.array([_days(text, read) if text else math.nan for text in texts], dtype=np.float64)


def text_of(day: float, whole: bool = False) -> str:
    """The date that is so many days after 1970-01-01, with the minute if it is not midnight; ``whole``, the nearest.

    >>> text_of(1.0), text_of(0.5), text_of(0.75, whole=True)
    ('1970-01-02', '1970-01-01T12:00', '1970-01-02')
    """
    try:
        date = EPOCH + (timedelta(days=round(day)) if whole else timedelta(minutes=round(day * 24 * 60)))
    except OverflowError:
        return ""
    return f"{date:%Y-%m-%d}" if (date.hour, date.minute) == (0, 0) else f"{date:%Y-%m-%dT%H:%M}"


def _share(texts: Sequence[str], form: str) -> float:
    return float(np.isfinite(days(texts, form)).mean()) if texts else 0.0


def _reader(form: str) -> Callable[[str], datetime]:
    if form == ISO:
        return datetime.fromisoformat
    return lambda text: datetime.strptime(text, form)


def date_of(text: str, form: str) -> datetime | None:
    """The date that a text writes in this form; None if it writes none.

    >>> date_of("Jan 2024", "%b %Y")
    datetime.datetime(2024, 1, 1, 0, 0)
    """
    try:
        return _reader(form)(text)
    except ValueError:
        return None


def _days(text: str, read: Callable[[str], datetime]) -> float:
    try:
        date = read(text)
    except ValueError:
        return math.inf
    if date.tzinfo is not None:
        date = date.astimezone(UTC).replace(tzinfo=None)
    return (date - EPOCH) / timedelta(days=1)

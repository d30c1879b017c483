"""Columns of times: dates or whole numbers, and the calendar whose steps they are.

The step is the one that most rows are after those before them, by the calendar: months, where all dates are on one day
of the month, or on its last; weekdays, where days follow each other and no weekend is there; else so many seconds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from deepcanon.core import DataError
from deepcanon.core.calendar import DAY, PATTERNS, Calendar, Pattern, Unit, offset_of, units_of
from deepcanon.data.tables import date_texts
from deepcanon.data.tables.csv_file import CsvFile

Time = int | datetime
Whole = NDArray[np.int64]

LARGEST = 2**53
"""Whole numbers from here on are not all told apart by others who read the file."""
MONTH = re.compile(r"\d{4}-\d{2}")
DATE_IN_DIGITS = re.compile(r"(1[89]|20|21)\d{6}")
NUMBER = re.compile(r"[+-]?\d{1,16}(\.0*)?")
ZONE = re.compile(r"(Z|[+-]\d{2}(:?\d{2})?)$")
SHORTEST_MONTH = 28


@dataclass(frozen=True)
class TimeColumn:
    """A column of times: the different ones as they are written, what they mean, and which of them each row has."""

    file: CsvFile
    name: str
    texts: tuple[str, ...]
    times: tuple[Time, ...]
    codes: Whole

    @property
    def dates(self) -> bool:
        return isinstance(self.times[0], datetime)

    def text(self, row: int) -> str:
        return self.texts[int(self.codes[row])]

    def units(self, unit: Unit) -> Whole:
        """The time of each row in whole units."""
        return np.array([units_of(time, unit) for time in self.times], dtype=np.int64)[self.codes]

    def steps(self, calendar: Calendar) -> Whole:
        """The step of each row; a time between two steps is refused."""
        if self.dates != (calendar.unit != "number"):
            wanted = "dates, as those" if calendar.unit != "number" else "whole numbers, as those"
            raise self.file.wrong(0, self.name, f"{wanted} of the training, were expected, got {self.text(0)!r}")
        found = [calendar.step(time) for time in self.times]
        missing = np.array([step is None for step in found])[self.codes]
        if missing.any():
            row = int(missing.argmax())
            problem = f"{self.text(row)!r} lies between two steps: they are {calendar.stride} apart"
            raise self.file.wrong(row, self.name, f"{problem}, and one is at {calendar.text(0)}; mend it or the others")
        return np.array(found, dtype=np.int64)[self.codes]


def times_of(file: CsvFile, name: str) -> TimeColumn:
    """The times of a column: ISO dates, with a time of day and an offset from UTC or without, or whole numbers.

    Dates may be in another form, too, if it is one of those of a table and the same for all. Dates are in UTC if they
    have an offset.
    """
    texts, codes = file.coded(name)
    there, codes = np.unique(codes, return_inverse=True)  # of some rows, not all
    texts = tuple(texts[code] for code in there)
    numbers = all(NUMBER.fullmatch(text) for text in texts)
    if numbers and not all(DATE_IN_DIGITS.fullmatch(text) and _date(text) for text in texts):
        times: list[Time | None] = [int(float(text)) if abs(float(text)) < LARGEST else None for text in texts]
    else:
        times = _dates(texts)
        zoned = [bool(ZONE.search(text)) and ":" in text for text in texts]
        if any(zoned) and not all(zoned):
            bare = int((~np.array(zoned))[codes].argmax())
            problem = f"{texts[codes[bare]]!r} has no offset from UTC, and others have one; write it with all or none"
            raise file.wrong(bare, name, problem)
    wrong = np.array([time is None for time in times])[codes]
    if wrong.any():
        row = int(wrong.argmax())
        written = texts[codes[row]]
        got = f"got {written!r}" if written else "and there is none"
        wanted = f"a time was expected, as 2024-01-31, 2024-01-31 13:00 or a whole number, {got}"
        if len(date_texts.form_of(texts)) > 1:
            wanted += "; no day above 12 says which of its numbers is the month"
        raise file.wrong(row, name, wanted)
    return TimeColumn(file, name, texts, tuple(time for time in times if time is not None), codes)


def calendar_of(column: TimeColumn, series: Sequence[Whole]) -> Calendar:
    """The calendar of the times of several series, each of which has these rows."""
    unit, day = _unit(column, series)
    apart = _apart(column.units(unit), series)
    if not len(apart):
        raise DataError(
            f"{column.file.path} has no series of two steps in the order of time, so that it does not say how far "
            "apart they are"
        )
    start = min(column.times)
    clock = int(_clock(column)[0]) if unit in ("weekday", "month") else 0
    pattern, zone = _form(column)
    return Calendar(unit, _most_frequent(apart), units_of(start, unit), day, clock, pattern, zone)


def _unit(column: TimeColumn, series: Sequence[Whole]) -> tuple[Unit, int]:
    """The unit in which steps are equally long, and the day of the month on which months begin."""
    if not column.dates:
        return "number", 1
    apart, clock = _apart(column.units("microsecond"), series), _clock(column)
    dates = [time for time in column.times if isinstance(time, datetime)]
    if len(apart) == 0 or len(np.unique(clock)) > 1:
        return "microsecond", 1
    day = max(date.day for date in dates)
    last = [(date.replace(day=SHORTEST_MONTH) + timedelta(days=4)).replace(day=1) - timedelta(days=1) for date in dates]
    monthly = all(date.day == min(day, end.day) for date, end in zip(dates, last, strict=True))
    if monthly and apart.min() >= SHORTEST_MONTH * DAY:
        return "month", day
    daily = _most_frequent(apart) == DAY and (apart == 3 * DAY).any()
    return ("weekday" if daily and all(date.weekday() < 5 for date in dates) else "microsecond"), 1


def _clock(column: TimeColumn) -> Whole:
    """The time of day of each time, in microseconds."""
    return np.array([units_of(time, "microsecond") % DAY for time in column.times], dtype=np.int64)


def _apart(units: Whole, series: Sequence[Whole]) -> Whole:
    """How far each row is after the one before it in its series, where it is."""
    found = np.concatenate([np.diff(units[rows]) for rows in series]) if len(series) else np.array([], dtype=np.int64)
    return found[found > 0]


def _most_frequent(values: Whole) -> int:
    """The value that occurs most often, the smallest of several."""
    different, counts = np.unique(values, return_counts=True)
    return int(different[counts.argmax()])


def _form(column: TimeColumn) -> tuple[Pattern, str]:
    """The pattern and the offset with which all dates are written as in the file; of several offsets it is UTC's."""
    if not column.dates:
        return "", ""
    zones = {found[0] if (found := ZONE.search(text)) and ":" in text else "" for text in column.texts}
    zone = zones.pop() if len(zones) == 1 else "+00:00"
    shift = offset_of(zone)
    written = [text.removesuffix(zone) for text in column.texts]
    local = [time + shift for time in column.times if isinstance(time, datetime)]
    fits = (pattern for pattern in PATTERNS if all(f"{t:{pattern}}" == w for t, w in zip(local, written, strict=True)))
    return next(fits, _longest(local, written)), zone


def _longest(local: Sequence[datetime], written: Sequence[str]) -> Pattern:
    """The shortest pattern that loses nothing, where dates are written in several ways."""
    mark = "T" if any("T" in text for text in written) else " "
    whole = [p for p in PATTERNS if p not in ("%Y-%m", "%Y%m%d") and ("%H" not in p or mark in p)]
    return next(p for p in whole if all(datetime.fromisoformat(f"{time:{p}}") == time for time in local))


def _dates(texts: Sequence[str]) -> list[Time | None]:
    """The dates that texts write by ISO 8601 or, if it is the same for all, in another form of the dates of a table."""
    found = [_date(text) for text in texts]
    if any(found):
        return [*found]
    forms = date_texts.form_of(texts)
    return [date_texts.date_of(text, forms[0]) if len(forms) == 1 else None for text in texts]


def _date(text: str) -> datetime | None:
    """The date that a text writes by ISO 8601, in UTC if it has an offset; None if it writes none."""
    try:
        found = datetime.fromisoformat(f"{text}-01" if MONTH.fullmatch(text) else text)
        return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None

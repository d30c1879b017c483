"""Calendars: when the steps of time series are, as whole numbers or as dates, and how that is written."""

from __future__ import annotations

import math
from calendar import monthrange
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from deepcanon.core.errors import UsageError
from deepcanon.core.plural import counted

Unit = Literal["number", "microsecond", "weekday", "month"]
Cycle = Literal["day", "week", "year"]
Pattern = Literal[
    "", "%Y-%m", "%Y-%m-%d", "%Y%m%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S.%f",
]  # fmt: skip
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)[1:]
"""How dates may be written, the shortest first; the last one writes every one."""

EPOCH, MONDAY = datetime(1970, 1, 1), datetime(1970, 1, 5)
MICROSECOND, DAY = timedelta(microseconds=1), 86_400_000_000
MICROSECONDS = {"week": 7 * DAY, "day": DAY, "hour": DAY // 24, "minute": 60_000_000, "second": 1_000_000}
CYCLES: tuple[Cycle, ...] = get_args(Cycle)
DAYS = {"day": 1.0, "week": 7.0, "year": 365.2425}
"""The lengths of the cycles in days."""


@dataclass(frozen=True)
class Calendar:
    """The times of steps that are ``every`` so many units apart, counted from the ``start``.

    Whole numbers are times, too. A step may be so many microseconds; weekdays, Monday to Friday; or months, all on the
    same ``day`` or on the last one of shorter months, so that 31 is the end of each. Weekdays and months have their
    time of day, ``clock``, in microseconds.

    >>> Calendar("month", 1, start=2024 * 12, day=31, pattern="%Y-%m-%d").text(1)
    '2024-02-29'
    """

    unit: Unit
    every: int
    start: int
    day: int = 1
    clock: int = 0
    pattern: Pattern = ""
    zone: str = ""
    """The offset from UTC as it is written after each time; the times themselves are in UTC then."""

    def at(self, step: int) -> int | datetime:
        """The time of a step."""
        units = self.start + step * self.every
        try:
            if self.unit == "number":
                return units
            if self.unit == "microsecond":
                return EPOCH + units * MICROSECOND
            if self.unit == "weekday":
                week, day = divmod(units, 5)
                return MONDAY + timedelta(weeks=week, days=day, microseconds=self.clock)
            year, month = divmod(units, 12)
            last = monthrange(year, month + 1)[1]
            return datetime(year, month + 1, min(self.day, last)) + self.clock * MICROSECOND
        except (OverflowError, ValueError):
            raise UsageError("dates are those of the years 1 to 9999; these steps reach beyond: take fewer") from None

    def step(self, time: int | datetime) -> int | None:
        """The step at a time; None where no step is."""
        step, rest = divmod(units_of(time, self.unit) - self.start, self.every)
        return step if rest == 0 and self.at(step) == time else None

    def text(self, step: int) -> str:
        """The time of a step as it is written."""
        time = self.at(step)
        if not isinstance(time, datetime):
            return str(time)
        return f"{time + offset_of(self.zone):{self.pattern}}{self.zone}"

    @property
    def stride(self) -> str:
        """How far apart two steps are, in words.

        >>> Calendar("microsecond", 7200 * 10**6, 0).stride, Calendar("month", 1, 0).stride
        ('2 hours', '1 month')
        """
        if self.unit == "number":
            return str(self.every)
        if self.unit != "microsecond":
            return counted(self.every, self.unit)
        name, size = next((each for each in MICROSECONDS.items() if self.every % each[1] == 0), (self.unit, 1))
        return counted(self.every // size, name)

    def cycles(self, steps: int) -> tuple[Cycle, ...]:
        """The cycles that so many steps show: gone through twice or more, each in more than two steps."""
        days = self.days()
        return () if days is None else tuple(each for each in CYCLES if 2 * days < DAYS[each] <= steps * days / 2)

    def days(self) -> float | None:
        """The days from a step to the next, on average; None of whole numbers."""
        sizes = {"microsecond": 1 / DAY, "weekday": 7 / 5, "month": DAYS["year"] / 12}
        return self.every * sizes[self.unit] if self.unit in sizes else None

    def phases(self, step: int, cycles: tuple[Cycle, ...]) -> list[float]:
        """Where a step stands in each of the cycles: the sine and the cosine of its angle."""
        time = self.at(step)
        assert isinstance(time, datetime)
        local = time + offset_of(self.zone)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        day = (local - midnight) / timedelta(days=1)
        since = {"day": day, "week": local.weekday() + day, "year": local.timetuple().tm_yday - 1 + day}
        angles = [2 * math.pi * since[each] / DAYS[each] for each in cycles]
        return [wave(angle) for angle in angles for wave in (math.sin, math.cos)]


def units_of(time: int | datetime, unit: Unit) -> int:
    """A time in whole units.

    >>> units_of(datetime(2024, 3, 5), "month") - units_of(datetime(2023, 3, 31), "month")
    12
    """
    if not isinstance(time, datetime):
        return time
    if unit == "month":
        return time.year * 12 + time.month - 1
    if unit == "weekday":
        week, day = divmod((time - MONDAY).days, 7)
        return 5 * week + min(day, 5)
    return (time - EPOCH) // MICROSECOND


def offset_of(zone: str) -> timedelta:
    """What is added to a time in UTC where it is written with this offset.

    >>> offset_of("+02:00"), offset_of("")
    (datetime.timedelta(seconds=7200), datetime.timedelta(0))
    """
    offset = datetime.fromisoformat(f"2000-01-01T00:00{zone}").utcoffset()
    return timedelta() if offset is None else offset

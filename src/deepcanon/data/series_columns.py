"""Columns of a file of time series: which are times, names, values and covariates, and which rows each series has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from deepcanon.core import DataError, UsageError
from deepcanon.core.calendar import Calendar
from deepcanon.core.plural import counted
from deepcanon.core.reading import Reading, names_in
from deepcanon.data.tables.csv_file import CsvFile
from deepcanon.data.tables.table_columns import numbers_of

Values = NDArray[np.float64]
Whole = NDArray[np.int64]

VALUE = "value"
"""What the values of a file in wide form are called."""


@dataclass(frozen=True)
class Columns:
    """The columns of a file of series by their meaning; a file without ``targets`` is in wide form."""

    time: str
    series: str | None
    targets: tuple[str, ...]
    covariates: tuple[str, ...]

    @classmethod
    def of(cls, file: CsvFile, reading: Reading) -> Self:
        """The columns that the reading options name, each of which must be there, and have one meaning."""
        time, series = str(reading["time"]), reading.get("series")
        targets, covariates = (_named(file, value) for value in (reading.get("target"), reading.get("covariates")))
        found = [time, *([] if series is None else [series]), *targets, *covariates]
        for name in found:
            file.column(name)
            if found.count(name) > 1:
                raise UsageError(f"the column {name!r} is named twice; each is a time, a target, a covariate or a name")
        if series is not None and not targets:
            raise UsageError(
                f"which column of {file.path} holds the values of the series that {series!r} names? Say so by --target"
            )
        return cls(time, series, targets, covariates)

    @property
    def words(self) -> list[str | None]:
        """The columns whose texts are read."""
        return [self.time, self.series]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the values at each step."""
        return self.targets or (VALUE,)

    def rows(self, file: CsvFile) -> dict[str, Whole]:
        """The rows of each series by its name, in the order of the file."""
        everything = np.arange(len(file))
        for name in (self.time, *self.targets, *self.covariates):
            file.column(name)
        if not self.targets:
            names = [name for name in file.columns if name not in (self.time, *self.covariates)]
            if not names:
                raise DataError(
                    f"{file.path} has no column but the time {self.time!r} and covariates: where is a series?"
                )
            return dict.fromkeys(names, everything)
        if self.series is None:
            return {",".join(self.targets): everything}
        texts, codes = file.coded(self.series)
        order = np.argsort(codes, kind="stable")
        different, starts = np.unique(codes[order], return_index=True)
        parts = dict(zip(different.tolist(), np.split(order, starts[1:]), strict=True))
        found = {texts[code]: parts[code] for code in sorted(parts, key=lambda code: int(parts[code][0]))}
        if "" in found:
            raise file.wrong(int(found[""][0]), self.series, "the series that this row is of has no name; fill it in")
        return found

    def values_of(self, name: str) -> tuple[str, ...]:
        """The columns that hold the values of a series."""
        return self.targets or (name,)


@dataclass(frozen=True)
class Lane:
    """One series of a file: its rows in the order of time, the values of the first of them, and its first step.

    Rows without values come after the end of the series and have its covariates of the future.
    """

    name: str
    rows: Whole
    values: Values
    first: int


def lanes_of(
    file: CsvFile, columns: Columns, rows: Mapping[str, Whole], steps: Whole, calendar: Calendar
) -> list[Lane]:
    """The series, each from its first value on, without missing steps or values.

    ``steps`` are those of all rows of the file.
    """
    names = dict.fromkeys(name for series in rows for name in columns.values_of(series))
    numbers = {name: numbers_of(file, name) for name in names}
    return [_lane(file, columns, name, of, numbers, steps, calendar) for name, of in rows.items()]


def _lane(
    file: CsvFile, columns: Columns, name: str, rows: Whole, numbers: Mapping[str, Values], steps: Whole,
    calendar: Calendar,
) -> Lane:  # fmt: skip
    names = columns.values_of(name)
    values = np.stack([numbers[each][rows] for each in names], 1)
    there = np.flatnonzero(~np.isnan(values).all(1))
    if not len(there):
        raise DataError(f"{file.path}: the series {name!r} has no values; take it out")
    rows, values = rows[there[0] :], values[there[0] : there[-1] + 1]
    if np.isnan(values).any():
        place, column = np.argwhere(np.isnan(values))[0]
        problem = f"the value of {name!r} is missing, and later ones are not; fill it in"
        raise file.wrong(int(rows[place]), names[column], problem)
    _check_order(file, columns, name, rows, steps[rows], calendar)
    return Lane(name, rows, values, int(steps[rows[0]]))


def _check_order(
    file: CsvFile, columns: Columns, name: str, rows: Whole, steps: Whole, calendar: Calendar
) -> None:  # fmt: skip
    """Refuse a time that goes backwards, comes twice, or leaves steps out."""
    apart = np.diff(steps)
    if (apart == 1).all():
        return
    back = apart < 0  # before anything else: rows in another order also seem to leave steps out
    place = int((back if back.any() else apart != 1).argmax())
    row, line = int(rows[place + 1]), file.line(int(rows[place]))
    now, before = (calendar.text(int(steps[at])) for at in (place + 1, place))
    alone = columns.series is None and columns.targets
    stacked = "; if the rows are of several series, name the column that says which by --series" if alone else ""
    if apart[place] < 0:
        problem = f"the time of {name!r} goes back from {before} (line {line}) to {now}: sort the rows by it{stacked}"
        raise file.wrong(row, columns.time, problem)
    if apart[place] == 0:
        problem = f"{now} comes twice in {name!r} (also in line {line}): take one of them out{stacked}"
        raise file.wrong(row, columns.time, problem)
    missing = int((apart[apart > 1] - 1).sum())
    steps_missing = f"lacks {counted(missing, 'step')}, the first" if missing > 1 else "lacks a step,"
    raise file.wrong(
        row,
        columns.time,
        f"the series {name!r} {steps_missing} {calendar.text(int(steps[place]) + 1)}: steps are {calendar.stride} "
        "apart; fill in what is missing or, where it means nothing, number the steps by a column 1, 2, 3 ...",
    )


def _named(file: CsvFile, value: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns of these names, which have commas between them, unless one is called so."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) and value in file.columns else names_in(value)

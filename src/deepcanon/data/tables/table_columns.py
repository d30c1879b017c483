"""Columns of a table: numbers, categories and dates as features of a model, and how they are taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from deepcanon.core import DataError
from deepcanon.core.hints import listed
from deepcanon.data.tables import date_texts
from deepcanon.data.tables.csv_cells import number
from deepcanon.data.tables.csv_file import CsvFile

ROUNDING = 1e-12
"""A standard deviation below this share of the largest value is what rounding leaves of a constant."""

MOST_FEATURES = 50
"""Of more different categories than these, only the most frequent ones have a feature each."""

SKEWED, LEAST_DIFFERENT = 3.0, 20
"""Numbers are heavy-tailed if their skewness is beyond this and they have more than so many different values.

They are bent at the median of the sizes that are not 0."""

UNKNOWN = -1
"""The code of a category that the training data did not have."""

Cycle = Literal["year", "week", "day"]

CYCLES: Mapping[Cycle, tuple[float, float]] = {"year": (365.2425, 0.0), "week": (7.0, 3.0), "day": (1.0, 0.0)}
"""The length of each cycle in days, and how many days before 1970-01-01, a Thursday, one began."""


@dataclass(frozen=True)
class Number:
    """A column of numbers, standardized; ``indicator`` adds the feature that says where it was missing.

    A heavy tail is bent first: with a ``bend`` s above 0 the mean and the standard deviation are those of
    arsinh(x / s), which is a straight line for numbers well below s and a logarithm for those beyond.
    """

    name: str
    median: float
    mean: float
    std: float
    indicator: bool
    bend: float = 0.0

    @classmethod
    def fit(cls, file: CsvFile, name: str, *, bent: bool = False) -> Self:
        """Fitted to the rows of a file; ``bent`` allows it to bend a heavy tail."""
        return cls._of(file, name, numbers_of(file, name), bent)

    @classmethod
    def _of(cls, file: CsvFile, name: str, values: NDArray[np.float64], bent: bool) -> Self:
        missing = np.isnan(values)
        if missing.all():
            raise DataError(f"{file.path}: column {name!r} has no value in the training split; take it out")
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is seen in what comes out
            median = _median(values[~missing] if missing.any() else values)
            filled = np.where(missing, median, values) if missing.any() else values
            mean, std, skewness = _moments(filled)
            heavy = bent and abs(skewness) > SKEWED and len(np.unique(filled)) > LEAST_DIFFERENT
            bend = _median(np.abs(filled[filled != 0])) if heavy else 0.0
            curved = np.arcsinh(filled / bend) if bend else filled
            mean, std, _ = _moments(curved) if bend else (mean, std, skewness)
        if not np.isfinite((median, mean, std)).all():
            raise DataError(
                f"{file.path}: column {name!r} has numbers up to {np.abs(filled).max():.3g}, too large to be "
                "standardized; write them in a larger unit"
            )
        constant = std <= ROUNDING * np.abs(curved).max()
        return cls(name, median, mean, 1.0 if constant else std, bool(missing.any()), bend)

    def staged(self, file: CsvFile) -> NDArray[np.float32]:
        """What is kept of each row until its features are filled in, which is less than the features may be."""
        return self.encode(file)

    def fill(self, features: NDArray[np.float32], staged: NDArray[Any]) -> None:
        """Write the features of rows, (B, features), of which this was kept."""
        features[:] = staged

    def encode(self, file: CsvFile) -> NDArray[np.float32]:
        """One row per row of the file: the standardized value, and whether it was missing."""
        return self._encoded(file, numbers_of(file, self.name))

    def _encoded(self, file: CsvFile, values: NDArray[np.float64]) -> NDArray[np.float32]:
        missing = np.isnan(values)
        with np.errstate(over="ignore"):
            filled = np.where(missing, self.median, values) if missing.any() else values
            standard = (np.arcsinh(filled / self.bend) if self.bend else filled) - self.mean
            standard /= self.std
            encoded = standard.astype(np.float32)
        if not (there := np.isfinite(encoded)).all():
            row = int(there.argmin())
            raise file.wrong(
                row, self.name, f"{values[row]:.3g} is too far from the training data, about {self.median:.3g}"
            )
        return np.stack([encoded, missing.astype(np.float32)], axis=1) if self.indicator else encoded[:, None]

    @property
    def features(self) -> int:
        return 1 + self.indicator

    @property
    def scales(self) -> list[float]:
        """What each feature was divided by; of a bent one, where it is a straight line."""
        return [self.std * (self.bend or 1.0), *([1.0] if self.indicator else [])]

    def log_det(self, encoded: NDArray[np.float64]) -> NDArray[np.float64]:
        """The logarithm of the derivative of the feature with respect to the number, for each row."""
        if not self.bend:
            return np.full(len(encoded), -np.log(self.std))
        curved: NDArray[np.float64] = encoded[:, 0] * self.std + self.mean
        slope: NDArray[np.float64] = np.log(2 / (self.std * self.bend)) - np.logaddexp(curved, -curved)
        return slope

    def decode(self, encoded: NDArray[np.float64]) -> list[Any]:
        """The numbers in the units of the file, empty where the indicator says that they are missing."""
        values: list[float] = self._decoded(encoded).tolist()
        missing = encoded[:, 1] > 0.5 if self.indicator else np.zeros(len(encoded), dtype=bool)
        return ["" if none else value for value, none in zip(values, missing.tolist(), strict=True)]

    def _decoded(self, encoded: NDArray[np.float64]) -> NDArray[np.float64]:
        curved: NDArray[np.float64] = encoded[:, 0] * self.std + self.mean
        return self.bend * np.sinh(curved) if self.bend else curved


@dataclass(frozen=True)
class Date(Number):
    """A column of dates: days as a number, and where each stands in the ``cycles``, by a sine and a cosine.

    Where a date is missing, both are 0. ``whole`` says that no date of the training data has a time of day.
    """

    form: str = date_texts.ISO
    cycles: tuple[Cycle, ...] = ()
    whole: bool = False

    @classmethod
    def fit(cls, file: CsvFile, name: str, *, bent: bool = False) -> Self:
        """Fitted to the rows of a file; ``bent`` allows features that are more than the days."""
        forms = date_texts.form_of([text for text in file.column(name).coded[0] if text])
        if len(forms) != 1:
            why = "not in one form that is read" if not forms else "which is the day and which the month cannot be told"
            raise DataError(f"{file.path}: column {name!r} was to hold dates, but {why}; write them as 2024-01-31")
        column = cls(name, 0.0, 0.0, 1.0, False, 0.0, forms[0])
        values = column.days(file)
        plain = cls._of(file, name, values, bent=False)
        timed = bool((np.floor(values[~np.isnan(values)]) != values[~np.isnan(values)]).any())
        cycles: tuple[Cycle, ...] = ("year", "week", *(("day",) if timed else ())) if bent else ()
        return cls(name, plain.median, plain.mean, plain.std, plain.indicator, 0.0, forms[0], cycles, not timed)

    def days(self, file: CsvFile) -> NDArray[np.float64]:
        """The days of each row since 1970, NaN where they are missing."""
        texts, codes = file.coded(self.name)
        values = date_texts.days(texts, self.form)[codes]
        if (wrong := np.isinf(values)).any():
            row = int(wrong.argmax())
            raise file.wrong(row, self.name, f"a date was expected, got {file.text(row, self.name)!r}")
        return values

    def encode(self, file: CsvFile) -> NDArray[np.float32]:
        values = self.days(file)
        phases = [2 * np.pi * (values + before) / length for length, before in map(CYCLES.__getitem__, self.cycles)]
        waves = [np.nan_to_num(wave(phase)) for phase in phases for wave in (np.sin, np.cos)]
        return np.column_stack([self._encoded(file, values), *(wave.astype(np.float32) for wave in waves)])

    @property
    def features(self) -> int:
        return 1 + self.indicator + 2 * len(self.cycles)

    @property
    def scales(self) -> list[float]:
        return [*super().scales, *[1.0] * (2 * len(self.cycles))]

    def decode(self, encoded: NDArray[np.float64]) -> list[Any]:
        """The dates, as ISO 8601 writes them, empty where missing; times only if the training data had any."""
        return ["" if day == "" else date_texts.text_of(day, self.whole) for day in super().decode(encoded)]


@dataclass(frozen=True)
class Category:
    """A column of categories, one-hot encoded; the index of a value among ``values`` is its code.

    Where there were ``other`` values, too rare for a feature each, one more feature stands for them and for all that
    are new. Without, a new value is unknown: all features are 0.
    """

    name: str
    values: tuple[str, ...]
    other: int = 0

    @classmethod
    def fit(cls, file: CsvFile, name: str, *, most: int | None = None) -> Self:
        """Numbers come first, by size, then texts, by letter; of more than ``most``, the most frequent ones."""
        texts, codes = file.coded(name)
        counts = np.bincount(codes, minlength=len(texts))
        there = np.flatnonzero(counts)
        kept = there if most is None or len(there) <= most else there[np.argsort(-counts[there], kind="stable")[:most]]
        values = sorted((texts[code] for code in kept), key=lambda text: (*_size(text), text))
        return cls(name, tuple(values), len(there) - len(kept))

    def codes(self, file: CsvFile) -> NDArray[np.int64]:
        """The code of each row: of a value without a feature of its own that of the others, or ``UNKNOWN``."""
        texts, codes = file.coded(self.name)
        known = {value: index for index, value in enumerate(self.values)}
        unknown = len(self.values) if self.other else UNKNOWN
        return np.array([known.get(text, unknown) for text in texts])[codes]

    def classes(self, file: CsvFile) -> NDArray[np.int64]:
        """The code of each row of a target, which must be known."""
        found = self.codes(file)
        if (unknown := found < 0).any():
            row = int(unknown.argmax())
            problem = f"{file.text(row, self.name) or '(missing)'!r} does not occur in the training data, which have"
            raise file.wrong(row, self.name, f"{problem} {listed(self.values)}")
        return found

    def staged(self, file: CsvFile) -> NDArray[np.int32]:
        """What is kept of each row until its features are filled in, which is less than the features may be."""
        return self.codes(file).astype(np.int32)

    def fill(self, features: NDArray[np.float32], staged: NDArray[Any]) -> None:
        """Write the features of rows, (B, features), of which this was kept: 1 at the code of a value, 0 elsewhere."""
        features[:] = 0
        there = np.flatnonzero(staged >= 0)
        features[there, staged[there]] = 1

    @property
    def features(self) -> int:
        return len(self.values) + bool(self.other)

    @property
    def scales(self) -> list[float]:
        return [1.0] * self.features

    def decode(self, encoded: NDArray[np.float64]) -> list[str]:
        """The category whose feature is the largest."""
        names = (*self.values, "other")
        return [names[code] for code in encoded.argmax(1).tolist()]


Column = Number | Category | Date

KINDS: Mapping[str, type[Number] | type[Category]] = {"number": Number, "category": Category, "date": Date}
"""The kinds of columns by the names that they are saved under."""


def kind_of(column: Column) -> str:
    """The name of a column's kind."""
    return next(name for name, kind in KINDS.items() if kind is type(column))


def column_as_json(column: Column) -> dict[str, Any]:
    plain = {"kind": kind_of(column), **asdict(column)}
    absent = {key for key in ("bend", "other", "whole") if not plain.get(key)}  # as runs of earlier versions have it
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in plain.items() if key not in absent
    }


def column_from_json(saved: Mapping[str, Any]) -> Column:
    facts: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in saved.items()}
    return KINDS[facts.pop("kind")](**facts)


def numbers_of(file: CsvFile, name: str) -> NDArray[np.float64]:
    """The column's numbers, not to be changed, NaN where they are missing."""
    values = file.numbers(name) if file.selected else file.column(name).numbers
    if not file.column(name).all_numbers and (wrong := np.isinf(values)).any():
        row = int(wrong.argmax())
        raise file.wrong(row, name, f"a number was expected, got {file.text(row, name)!r}")
    return values


def _median(values: NDArray[np.float64]) -> float:
    """The median of values without NaN, in half the time that NumPy takes, which looks for some."""
    half = len(values) // 2
    parted = np.partition(values, half)
    return float(parted[half] if len(values) % 2 else (parted[:half].max() + parted[half]) / 2)


def _moments(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """The mean, the standard deviation and the skewness, in few passes over the values."""
    mean = float(values.mean())
    away = values - mean
    std = float(np.sqrt(away @ away / len(away)))
    third = float(away @ (away * away)) / len(away)
    return mean, std, third / std**3 if std**3 > 0 else 0.0


def _size(text: str) -> tuple[bool, float]:
    value = number(text)
    return (True, 0.0) if value is None or np.isnan(value) else (False, value)

"""Columns of a table: numbers, standardized, and categories, one-hot encoded, and how either is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from deepcanon.core import DataError
from deepcanon.core.hints import listed
from deepcanon.data.tables.csv_file import CsvFile, number

ROUNDING = 1e-12
"""A standard deviation below this share of the largest value is what rounding leaves of a constant."""


@dataclass(frozen=True)
class Number:
    """A column of numbers, standardized; ``indicator`` adds the feature that says where it was missing."""

    name: str
    median: float
    mean: float
    std: float
    indicator: bool

    @classmethod
    def fit(cls, file: CsvFile, name: str) -> Self:
        values = numbers_of(file, name)
        missing = np.isnan(values)
        if missing.all():
            raise DataError(f"{file.path}: column {name!r} has no value in the training split; take it out")
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow is seen in what comes out
            median = float(np.median(values[~missing]))
            filled = np.where(missing, median, values)
            mean, std = float(filled.mean()), float(filled.std())
        if not np.isfinite((median, mean, std)).all():
            raise DataError(
                f"{file.path}: column {name!r} has numbers up to {np.abs(filled).max():.3g}, too large to be "
                "standardized; write them in a larger unit"
            )
        constant = std <= ROUNDING * np.abs(filled).max()
        return cls(name, median, mean, 1.0 if constant else std, bool(missing.any()))

    def encode(self, file: CsvFile) -> NDArray[np.float64]:
        """One row per row of the file: the standardized value, and whether it was missing."""
        values = numbers_of(file, self.name)
        missing = np.isnan(values)
        with np.errstate(over="ignore"):
            standard = (np.where(missing, self.median, values) - self.mean) / self.std
        if (large := np.abs(standard) > np.finfo(np.float32).max).any():
            row = int(large.argmax())
            raise file.wrong(
                row, self.name, f"{values[row]:.3g} is too far from the training data, about {self.mean:.3g}"
            )
        return np.stack([standard, missing], axis=1) if self.indicator else standard[:, None]

    @property
    def features(self) -> int:
        return 1 + self.indicator

    def decode(self, encoded: NDArray[np.float64]) -> list[float | str]:
        """The numbers in the units of the file, empty where the indicator says that they are missing."""
        values: list[float] = (encoded[:, 0] * self.std + self.mean).tolist()
        missing = encoded[:, 1] > 0.5 if self.indicator else np.zeros(len(encoded), dtype=bool)
        return ["" if none else value for value, none in zip(values, missing.tolist(), strict=True)]


@dataclass(frozen=True)
class Category:
    """A column of categories, one-hot encoded; the index of a value among ``values`` is its code."""

    name: str
    values: tuple[str, ...]

    @classmethod
    def fit(cls, file: CsvFile, name: str) -> Self:
        """Numbers come first, by size, then texts, by letter."""
        texts, codes = file.coded(name)
        there = [texts[code] for code in np.unique(codes)]
        return cls(name, tuple(sorted(there, key=lambda text: (*_size(text), text))))

    def codes(self, file: CsvFile) -> NDArray[np.int64]:
        texts, codes = file.coded(self.name)
        known = {value: index for index, value in enumerate(self.values)}
        found = np.array([known.get(text, -1) for text in texts])[codes]
        if (unknown := found < 0).any():
            row = int(unknown.argmax())
            problem = f"{texts[codes[row]] or '(missing)'!r} does not occur in the training data, which have"
            raise file.wrong(row, self.name, f"{problem} {listed(self.values)}")
        return found

    def encode(self, file: CsvFile) -> NDArray[np.float32]:
        """One row per row of the file: 1 at the code of its value, 0 elsewhere."""
        encoded = np.zeros((len(file), len(self.values)), dtype=np.float32)
        encoded[np.arange(len(file)), self.codes(file)] = 1
        return encoded

    @property
    def features(self) -> int:
        return len(self.values)

    def decode(self, encoded: NDArray[np.float64]) -> list[str]:
        """The category whose feature is the largest."""
        return [self.values[code] for code in encoded.argmax(1).tolist()]


Column = Number | Category


def column_as_json(column: Column) -> dict[str, Any]:
    plain = {"kind": "number" if isinstance(column, Number) else "category", **asdict(column)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}


def column_from_json(saved: Mapping[str, Any]) -> Column:
    facts = {key: value for key, value in saved.items() if key != "kind"}
    if saved["kind"] == "number":
        return Number(**facts)
    return Category(facts["name"], tuple(facts["values"]))


def numbers_of(file: CsvFile, name: str) -> NDArray[np.float64]:
    """The column's numbers, NaN where they are missing."""
    values = file.numbers(name)
    if (wrong := np.isinf(values)).any():
        row = int(wrong.argmax())
        raise file.wrong(row, name, f"a number was expected, got {file.text(row, name)!r}")
    return values


def _size(text: str) -> tuple[bool, float]:
    value = number(text)
    return (True, 0.0) if value is None or np.isnan(value) else (False, value)

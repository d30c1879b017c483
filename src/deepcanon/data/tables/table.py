"""Tables from CSV files: numbers, categories and dates become features, one column a target.

:mod:`~deepcanon.data.tables.column_rule` says what each column is. The preprocessing is fitted on the training split
and kept as JSON, so that new rows are treated alike:

- A number is standardized by its mean and standard deviation. A missing one becomes the median; if the training split
  misses any, a further feature says where. With a target, a heavy tail is bent by arsinh first. Where all columns hold
  zeros and ones only, these stay as they are.
- A category is one-hot encoded; a missing category is a category, and one that did not occur is unknown. Of more than
  fifty, the most frequent ones have a feature each, and all others share one.
- A date is the number of its days; with a target, also sine and cosine of the time of year, week and day.
- A target that is not numeric, or that has few different whole numbers, gives classes. Any other target is standardized
  too, and :func:`in_original_units` takes predictions back.
- In the form ``raw`` a target is a number in its own units: a count, a fraction or a duration.

Without a target the table itself is what is modeled, so that every column is one feature that can be taken back.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import Batch, DataError, Labeled
from deepcanon.core.hints import listed
from deepcanon.core.memory import need
from deepcanon.core.plural import counted
from deepcanon.data.tables.csv_cells import number
from deepcanon.data.tables.csv_file import CsvFile, read
from deepcanon.data.tables.table_columns import (
    Category,
    Column,
    Date,
    Number,
    column_as_json,
    column_from_json,
)

MOST_CLASSES = 20
"""A target with more different whole numbers is a quantity."""

BYTES = 8
"""The bytes that a feature takes while a table is made: in its column, and in the table."""

AT_ONCE = 2**12
"""The rows whose features are filled in at a time."""


@dataclass(frozen=True)
class Dropped:
    """A column of which no feature is made, and why; predictions are written next to those that name rows."""

    name: str
    why: str
    names_rows: bool


@dataclass(frozen=True)
class Unknown:
    """Categories that the training data do not have, and in how many rows; without any, what is missing is a number."""

    rows: int
    values: tuple[str, ...]

    def __add__(self, other: Unknown) -> Unknown:
        return Unknown(self.rows + other.rows, tuple(dict.fromkeys((*self.values, *other.values)))[:MOST_CLASSES])

    def __str__(self) -> str:
        if not self.values:
            lacking = counted(self.rows, "row lacks", ",", "rows lack")
            return f"{lacking} a value, which no row of the training data does, filled with the median"
        count = counted(self.rows, "row has a value", ",", "rows have values")
        return f"{count} that the training data do not have ({listed(self.values)}), taken as unknown"


@dataclass(frozen=True)
class Staged:
    """The rows of a file, of which each column keeps what its features are made of."""

    parts: tuple[tuple[Column, NDArray[Any]], ...]
    features: int

    def x(self, rows: NDArray[np.int64]) -> Tensor:
        """The features of these rows, filled in for some at a time, which stay in the cache."""
        x = np.empty((len(rows), self.features), dtype=np.float32)
        for start in range(0, len(rows), AT_ONCE):
            block, place = rows[start : start + AT_ONCE], 0
            for column, staged in self.parts:
                part = x[start : start + AT_ONCE, place : place + column.features]
                column.fill(part, np.take(staged, block, axis=0))
                place += column.features
        return torch.from_numpy(x)


@dataclass(frozen=True)
class Table:
    """The preprocessing of a table: the columns that are features, the target if there is one, and what is left out."""

    columns: tuple[Column, ...]
    target: Column | None
    dropped: tuple[Dropped, ...] = ()

    def x(self, file: CsvFile) -> Tensor:
        """The features of all rows of a file."""
        return self.staged(file).x(np.arange(len(file)))

    def staged(self, file: CsvFile, forget: bool = False) -> Staged:
        """What is kept of the rows of a file until features are made of it; a file may ``forget`` what is taken."""
        features = self.sizes()["features"]
        remedy = "take fewer rows, or out columns of many categories"
        need(BYTES * features * len(file), f"a table of {len(file):,} rows and {features:,} features", remedy)
        parts = []
        for column in self.columns:
            parts.append((column, column.staged(file)))
            if forget:
                del file.columns[column.name]
        return Staged(tuple(parts), features)

    def labels(self, file: CsvFile) -> Tensor | None:
        """The target of each row, where all of them have it."""
        target = self.target
        if target is None or target.name not in file.columns or np.isnan(file.numbers(target.name)).any():
            return None
        if isinstance(target, Category):
            return torch.from_numpy(target.classes(file))
        return torch.from_numpy(target.encode(file))

    def batch(self, file: CsvFile) -> Batch:
        """The rows of the file, with labels where all of them have their target."""
        y = self.labels(file)
        return Batch(self.x(file)) if y is None else Labeled(self.x(file), y)

    def sizes(self) -> dict[str, int]:
        features = sum(column.features for column in self.columns)
        if self.target is None:
            return {"features": features}
        if isinstance(self.target, Category):
            return {"features": features, "classes": len(self.target.values)}
        return {"features": features, "targets": 1}

    def decode(self, x: Tensor) -> dict[str, list[Any]]:
        """Rows of features, (N, features), as the columns of the file, in its units and categories."""
        ends = np.cumsum([column.features for column in self.columns])[:-1]
        parts = np.split(x.detach().cpu().double().numpy(), ends, axis=1)
        return {column.name: column.decode(part) for column, part in zip(self.columns, parts, strict=True)}

    def unknown(self, file: CsvFile) -> dict[str, Unknown]:
        """What each column has that the training data do not: new categories, or missing numbers and dates."""
        found = {}
        for column in self.columns:
            if not isinstance(column, Category):
                missing = 0 if column.indicator else int(np.isnan(file.numbers(column.name)).sum())
                if missing:
                    found[column.name] = Unknown(missing, ())
                continue
            if column.other:
                continue
            texts, codes = file.coded(column.name)
            new = np.array([text not in column.values for text in texts])
            if new.any() and (rows := new[codes]).any():
                values = dict.fromkeys(texts[code] for code in codes[rows].tolist())
                found[column.name] = Unknown(int(rows.sum()), tuple(values))
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "columns": [column_as_json(column) for column in self.columns],
            "target": None if self.target is None else column_as_json(self.target),
            **({"dropped": [asdict(column) for column in self.dropped]} if self.dropped else {}),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        if "columns" not in saved:
            raise DataError(f"this preprocessing is not that of a table: it has {listed(saved)}, not columns")
        target = saved.get("target")
        return cls(
            columns=tuple(column_from_json(column) for column in saved["columns"]),
            target=None if target is None else column_from_json(target),
            dropped=tuple(Dropped(**column) for column in saved.get("dropped", ())),
        )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> Batch:
    """All rows of a CSV file, treated as the training data of a saved ``preprocessing`` were.

    Columns that it does not have are ignored. The target may be missing; the rows come with labels if all have it.
    Unless rows are to be ``labeled``, the target is ignored too. What the training data do not have is said on stderr.
    """
    table = Table.from_json(preprocessing)
    file = read(path, words_of(table))
    say_unknown(table.unknown(file), f"{path}, ")
    if not labeled:
        return Batch(table.x(file))
    return table.batch(with_class_names(file, table.target.name if table.target else None))


def labeled_rows(file: CsvFile, target: str) -> tuple[NDArray[np.int64], CsvFile]:
    """The rows in which a target of classes is not missing: their numbers, and the file with these only."""
    named = with_class_names(file, target)
    rows = np.flatnonzero(~np.isnan(named.numbers(target)))
    return rows, named.rows(rows)


def say_unknown(unknown: Mapping[str, Unknown], where: str = "") -> None:
    """Warn of categories and missing values that the training data do not have."""
    sys.stderr.writelines(f"{where}column {name!r}: {each}\n" for name, each in unknown.items())


def words_of(table: Table) -> list[str | None]:
    """The columns of a table that are read as texts, even where these are numbers."""
    texts = [column.name for column in table.columns if isinstance(column, Category | Date)]
    return [None if table.target is None else table.target.name, *texts]


def feature_scales(preprocessing: Mapping[str, Any]) -> tuple[float, ...]:
    """What each feature of a table was divided by: the standard deviation of a number, else 1.

    >>> column = {"kind": "number", "name": "a", "median": 0.0, "mean": 5.0, "std": 2.0}
    >>> feature_scales({"columns": [{**column, "indicator": True}]})
    (2.0, 1.0)
    """
    if "columns" not in preprocessing:
        return ()
    return tuple(scale for column in Table.from_json(preprocessing).columns for scale in column.scales)


def log_det_of_scaling(preprocessing: Mapping[str, Any], x: Tensor) -> Tensor:
    """What is added to the log-density of each row ``x`` to have it in the units of the table, (B,); else 0.

    >>> column = {"kind": "number", "name": "a", "median": 0.0, "mean": 5.0, "std": 2.0}
    >>> log_det_of_scaling({"columns": [{**column, "indicator": False}]}, torch.zeros(1, 1))
    tensor([-0.6931], dtype=torch.float64)
    """
    columns = Table.from_json(preprocessing).columns if "columns" in preprocessing else ()
    total = torch.zeros(len(x), dtype=torch.float64)
    place = 0
    for column in columns:
        if isinstance(column, Number):
            encoded = x[:, place : place + 1].detach().cpu().double().numpy()
            total += torch.from_numpy(column.log_det(encoded))
        place += column.features
    return total


def in_original_units(values: Tensor, preprocessing: Mapping[str, Any]) -> Tensor:
    """Predictions of a standardized target in the units of the file; anything else as it is.

    >>> saved = {"columns": [], "target": {"kind": "number", "name": "price", "median": 0.0, "mean": 100.0, "std": 10.0,
    ...          "indicator": False}}
    >>> in_original_units(torch.tensor([[0.5]]), saved)
    tensor([[105.]])
    >>> in_original_units(torch.tensor([[0.5]]), {})
    tensor([[0.5000]])
    """
    target = Table.from_json(preprocessing).target if "columns" in preprocessing else None
    return values * target.std + target.mean if isinstance(target, Number) else values


def original_rows(x: Tensor, preprocessing: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Rows of features as the columns of the table that they were made of; of other data ``x1``, ``x2`` ...

    >>> original_rows(torch.tensor([[1.0, 2.0]]), {})
    {'x1': [1.0], 'x2': [2.0]}
    """
    columns = preprocessing.get("columns")
    if columns and isinstance(columns[0], Mapping):
        return Table.from_json(preprocessing).decode(x)
    return {f"x{i + 1}": x[:, i].tolist() for i in range(x.shape[1])}


def target_unit(preprocessing: Mapping[str, Any]) -> tuple[str, float] | None:
    """The name of a target that is a number, and its unit in the model's: its standard deviation where standardized.

    >>> target_unit({"columns": []}) is None
    True
    """
    target = Table.from_json(preprocessing).target if "columns" in preprocessing else None
    return (target.name, target.std) if isinstance(target, Number) else None


def with_class_names(file: CsvFile, target: str | None) -> CsvFile:
    """The file with whole numbers written alike in its target column: 1.0 is the class 1."""
    if target is None or target not in file.columns:
        return file
    return file.with_meaning(target, _class_name)


def _class_name(text: str) -> str:
    value = number(text)
    if value is None or not value.is_integer() or abs(value) >= 2**53:  # beyond, floats skip whole numbers
        return text
    return str(int(value))

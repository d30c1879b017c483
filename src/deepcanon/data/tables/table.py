"""Tables from CSV files: numbers and categories become features, one column a target.

The preprocessing is fitted on the training split and kept as JSON, so that new rows are treated alike:

- A column in which every value is a number is standardized by its mean and standard deviation. A missing number becomes
  the median; if the training split misses any, a further feature says where.
- Any other column holds categories, one-hot encoded; a missing category is a category.
- A target that is not numeric, or that has few different whole numbers, gives classes. Any other target is standardized
  too, and :func:`in_original_units` takes predictions back.
- In the form ``raw`` a target is a number in its own units: a count, a fraction or a duration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import Batch, DataError, Labeled, UsageError
from deepcanon.core.hints import listed
from deepcanon.core.memory import need
from deepcanon.data.dataset import Dataset
from deepcanon.data.split import cut, stratified_order, three_counts
from deepcanon.data.tables.csv_file import CsvFile, number, read

MOST_CLASSES = 20
"""A target with more different whole numbers is a quantity."""

MOST_CATEGORIES = 20
"""A column may have more categories than these only if every one fills two rows on average."""

RAW = "raw"
"""The form of a file whose target is left as it is."""

BYTES = 8
"""The bytes that a feature takes while a table is made: in its column, and in the table."""

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
        values = _numbers(file, name)
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
        values = _numbers(file, self.name)
        missing = np.isnan(values)
        with np.errstate(over="ignore"):
            standard = (np.where(missing, self.median, values) - self.mean) / self.std
        if (large := np.abs(standard) > np.finfo(np.float32).max).any():
            row = int(large.argmax())
            raise file.wrong(
                row, self.name, f"{values[row]:.3g} is too far from the training data, about {self.mean:.3g}"
            )
        return np.stack([standard, missing], axis=1) if self.indicator else standard[:, None]


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


Column = Number | Category


@dataclass(frozen=True)
class Table:
    """The preprocessing of a table: the columns that are features, and the target if there is one."""

    columns: tuple[Column, ...]
    target: Column | None

    def x(self, file: CsvFile) -> Tensor:
        features = self.sizes()["features"]
        remedy = "take fewer rows, or out columns of many categories"
        need(BYTES * features * len(file), f"a table of {len(file):,} rows and {features:,} features", remedy)
        x = np.empty((len(file), features), dtype=np.float32)
        end = 0
        for column in self.columns:
            encoded = column.encode(file)
            start, end = end, end + encoded.shape[1]
            x[:, start:end] = encoded
        return torch.from_numpy(x)

    def batch(self, file: CsvFile) -> Batch:
        """The rows of the file, with labels where all of them have their target."""
        if (
            self.target is None
            or self.target.name not in file.columns
            or np.isnan(file.numbers(self.target.name)).any()
        ):
            return Batch(self.x(file))
        if isinstance(self.target, Category):
            return Labeled(self.x(file), torch.from_numpy(self.target.codes(file)))
        return Labeled(self.x(file), torch.from_numpy(self.target.encode(file)).float())

    def sizes(self) -> dict[str, int]:
        features = sum(len(c.values) if isinstance(c, Category) else 1 + c.indicator for c in self.columns)
        if self.target is None:
            return {"features": features}
        if isinstance(self.target, Category):
            return {"features": features, "classes": len(self.target.values)}
        return {"features": features, "targets": 1}

    def as_json(self) -> dict[str, Any]:
        return {
            "columns": [_column_as_json(column) for column in self.columns],
            "target": None if self.target is None else _column_as_json(self.target),
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        if "columns" not in saved:
            raise DataError(f"this preprocessing is not that of a table: it has {listed(saved)}, not columns")
        target = saved.get("target")
        return cls(
            columns=tuple(_column_from_json(column) for column in saved["columns"]),
            target=None if target is None else _column_from_json(target),
        )


def load(
    path: Path, target: str | None = None, preprocessing: Mapping[str, Any] | None = None, raw: bool = False
) -> Dataset[Batch]:
    """The table in a CSV file, split by a fixed seed into training, validation and test rows.

    With the ``preprocessing`` that an earlier load has fitted, nothing is fitted anew. A ``raw`` target is a number
    that is left as it is.
    """
    saved = None if preprocessing is None else Table.from_json(preprocessing)
    if saved is not None:
        target = _agreed(target, saved)
    if raw and target is None:
        raise UsageError(f"{path}:{RAW} leaves the target as it is; say which column is the target")
    file = _with_class_names(read(path, _words(saved, target)), target)
    if target is not None and (missing := np.isnan(file.numbers(target))).any():
        raise file.wrong(int(missing.argmax()), target, "the target is missing; fill it in or take the row out")
    kinds = (
        _kinds(file, target, raw) if saved is None else {c.name: type(c) for c in (*saved.columns, saved.target) if c}
    )
    parts = [file.rows(rows) for rows in _split(file, kinds, target)]
    table = saved or _fit(parts[0], kinds, target, raw)
    train, valid, test = (table.batch(part) for part in parts)
    sizes = table.sizes()
    return Dataset(
        name=f"{path}:{RAW}" if raw else str(path),
        kind="table",
        train=train,
        valid=valid,
        test=test,
        sizes=sizes,
        shape=(sizes["features"],),
        labels=table.target.values if isinstance(table.target, Category) else (),
        source=str(path.resolve()),
        target=target,
        preprocessing=table.as_json() | ({"form": RAW} if raw else {}),
    )


def apply(path: Path, preprocessing: Mapping[str, Any], labeled: bool = True) -> Batch:
    """All rows of a CSV file, treated as the training data of a saved ``preprocessing`` were.

    Columns that it does not have are ignored. The target may be missing; the rows come with labels if all have it.
    Unless rows are to be ``labeled``, the target is ignored too.
    """
    table = Table.from_json(preprocessing)
    target = table.target.name if table.target else None
    file = read(path, _words(table, target))
    return table.batch(_with_class_names(file, target)) if labeled else Batch(table.x(file))


def feature_scales(preprocessing: Mapping[str, Any]) -> tuple[float, ...]:
    """What each feature of a table was divided by: the standard deviation of a number, else 1.

    >>> column = {"kind": "number", "name": "a", "median": 0.0, "mean": 5.0, "std": 2.0}
    >>> feature_scales({"columns": [{**column, "indicator": True}]})
    (2.0, 1.0)
    """
    if "columns" not in preprocessing:
        return ()
    found: list[float] = []
    for column in Table.from_json(preprocessing).columns:
        if isinstance(column, Number):
            found += [column.std, 1.0] if column.indicator else [column.std]
        else:
            found += [1.0] * len(column.values)
    return tuple(found)


def log_det_of_scaling(preprocessing: Mapping[str, Any]) -> float:
    """What is added to the log-density of standardized rows to have it in the units of the table; else 0.

    >>> column = {"kind": "number", "name": "a", "median": 0.0, "mean": 5.0, "std": 2.0}
    >>> round(log_det_of_scaling({"columns": [{**column, "indicator": False}]}), 4)
    -0.6931
    """
    if "columns" not in preprocessing:
        return 0.0
    columns = Table.from_json(preprocessing).columns
    return -sum(float(np.log(column.std)) for column in columns if isinstance(column, Number))


def in_original_units(values: Tensor, preprocessing: Mapping[str, Any]) -> Tensor:
    """Predictions of a standardized target in the units of the file; anything else as it is.

    >>> saved = {"columns": [], "target": {"kind": "number", "name": "price", "median": 0.0, "mean": 100.0, "std": 10.0,
    ...          "indicator": False}}
    >>> in_original_units(torch.tensor([[0.5]]), saved)
    tensor([[105.]])
    """
    target = Table.from_json(preprocessing).target
    return values * target.std + target.mean if isinstance(target, Number) else values


def target_unit(preprocessing: Mapping[str, Any]) -> tuple[str, float] | None:
    """The name of a target that is a number, and its unit in the model's: its standard deviation where standardized.

    >>> target_unit({"columns": []}) is None
    True
    """
    target = Table.from_json(preprocessing).target if "columns" in preprocessing else None
    return (target.name, target.std) if isinstance(target, Number) else None


def _kinds(file: CsvFile, target: str | None, raw: bool) -> dict[str, type[Column]]:
    """The kind of each column: numbers or categories (classes, for the target)."""
    kinds: dict[str, type[Column]] = {} if target is None else {target: _target_kind(file, target, raw)}
    for name, cells in file.columns.items():
        if name == target:
            continue
        if cells.numeric:
            kinds[name] = Number
            continue
        values = [text for text in cells.coded[0] if text]
        if len(values) > MOST_CATEGORIES and 2 * len(values) > len(file):
            odd = next(text for text in values if number(text) is None)
            raise DataError(
                f"{file.path}: column {name!r} has {len(values)} different values in {len(file)} rows and not all are "
                f"numbers ({odd!r}), so it names rows rather than describing them; take it out or mend it"
            )
        kinds[name] = Category
    if not kinds.keys() - {target}:
        raise DataError(f"{file.path} has no column but the target {target!r}; there is nothing to predict it from")
    return kinds


def _target_kind(file: CsvFile, name: str, raw: bool) -> type[Column]:
    cells = file.column(name)
    different = len(np.unique(cells.numbers))  # at most as many as there are texts, and found much faster
    if different == 1 and len(texts := cells.coded[0]) == 1:
        raise DataError(f"{file.path}: the target {name!r} is {texts[0]} in every row, so there is nothing to learn")
    if raw or not cells.numeric:
        return Number if raw else Category
    whole = np.isfinite(cells.numbers) & (np.floor(cells.numbers) == cells.numbers)
    few = different <= MOST_CLASSES and len(cells.coded[0]) <= min(MOST_CLASSES, len(file) // 2)
    return Category if few and whole.all() else Number


def _split(file: CsvFile, kinds: Mapping[str, type[Column]], target: str | None) -> list[NDArray[np.int64]]:
    """The rows of the training, validation and test split: fixed by a seed and stratified by class."""
    classes = file.coded(target)[1] if target and kinds[target] is Category else np.zeros(len(file), dtype=np.int64)
    order = stratified_order(classes, seed=0)
    train, *held = (rows.numpy() for rows in cut(order, three_counts(len(file), str(file.path))))
    categories = [file.coded(name)[1] for name, kind in kinds.items() if kind is Category]
    known = [np.bincount(codes[train], minlength=codes.max() + 1) > 0 for codes in categories]
    # A category without a row in the training split could never be learned, so its first row goes there.
    moved: list[int] = []
    for place, part in enumerate(held):
        strange = np.zeros(len(part), dtype=bool)
        for codes, seen in zip(categories, known, strict=True):
            strange |= ~seen[codes[part]]
        for row in part[strange]:
            if not all(seen[codes[row]] for codes, seen in zip(categories, known, strict=True)):
                moved.append(row)
                for codes, seen in zip(categories, known, strict=True):
                    seen[codes[row]] = True
        held[place] = part[~np.isin(part, moved)]
        if not len(held[place]):
            raise DataError(f"{file.path} has too few rows for its categories: none is left to validate or test")
    return [np.sort(np.concatenate([train, np.array(moved, dtype=np.int64)])), *held]


def _fit(file: CsvFile, kinds: Mapping[str, type[Column]], target: str | None, raw: bool) -> Table:
    fitted = {name: kind.fit(file, name) for name, kind in kinds.items()}
    predicted = None if target is None else fitted[target]
    if raw and isinstance(predicted, Number):
        predicted = replace(predicted, mean=0.0, std=1.0)
    return Table(columns=tuple(column for name, column in fitted.items() if name != target), target=predicted)


def _words(table: Table | None, target: str | None) -> list[str | None]:
    """The columns that are read as texts, even where these are numbers."""
    categories = [column.name for column in table.columns if isinstance(column, Category)] if table else []
    return [target, *categories]


def _agreed(target: str | None, saved: Table) -> str | None:
    known = None if saved.target is None else saved.target.name
    if target not in (None, known):
        raise UsageError(f"the saved preprocessing has the target {known!r}, but {target!r} was given; leave it out")
    return known


def _numbers(file: CsvFile, name: str) -> NDArray[np.float64]:
    """The column's numbers, NaN where they are missing."""
    values = file.numbers(name)
    if (wrong := np.isinf(values)).any():
        row = int(wrong.argmax())
        raise file.wrong(row, name, f"a number was expected, got {file.text(row, name)!r}")
    return values


def _with_class_names(file: CsvFile, target: str | None) -> CsvFile:
    """The file with whole numbers written alike in its target column: 1.0 is the class 1."""
    if target is None or target not in file.columns:
        return file
    return file.with_meaning(target, _class_name)


def _class_name(text: str) -> str:
    value = number(text)
    if value is None or not value.is_integer() or abs(value) >= 2**53:  # beyond, floats skip whole numbers
        return text
    return str(int(value))


def _size(text: str) -> tuple[bool, float]:
    value = number(text)
    return (True, 0.0) if value is None or np.isnan(value) else (False, value)


def _column_as_json(column: Column) -> dict[str, Any]:
    plain = {"kind": "number" if isinstance(column, Number) else "category", **asdict(column)}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in plain.items()}


def _column_from_json(saved: Mapping[str, Any]) -> Column:
    facts = {key: value for key, value in saved.items() if key != "kind"}
    if saved["kind"] == "number":
        return Number(**facts)
    return Category(facts["name"], tuple(facts["values"]))

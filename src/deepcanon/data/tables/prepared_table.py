"""A table that is read, split and fitted: what every load of one begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import DataError, UsageError
from deepcanon.core.reading import Reading
from deepcanon.data.split import cut, grouped_order, ordered_parts, stratified_order, three_counts
from deepcanon.data.tables import date_texts
from deepcanon.data.tables.column_rule import Choice, asked_kinds, choose, parse_kinds, readable_numbers, refuse_strays
from deepcanon.data.tables.csv_file import CsvFile, read
from deepcanon.data.tables.table import MOST_CLASSES, Dropped, Table, with_class_names, words_of
from deepcanon.data.tables.table_columns import MOST_FEATURES, Category, Column, Date, Number, numbers_of

RAW = "raw"
"""The form of a file whose target is left as it is."""


@dataclass(frozen=True)
class Prepared:
    """A file with the rows of its splits and the preprocessing that is fitted to it, or was saved."""

    file: CsvFile
    splits: Mapping[str, NDArray[np.int64]]
    table: Table
    choices: Mapping[str, Choice]
    """What the rule has chosen; empty where the preprocessing was saved."""


def prepared(
    path: Path, forms: tuple[str, ...], reading: Reading, preprocessing: Mapping[str, Any] | None = None
) -> Prepared:
    """The file, split and with its preprocessing: fitted to the training rows, or the one that was saved.

    Rows are split by a fixed seed, stratified by class; with ``group`` all rows of a group are in one split, with
    ``split_by`` those with the lowest values of that column are for training and those with the highest for the test.
    """
    target, raw = reading.get("target"), RAW in forms
    saved = None if preprocessing is None else Table.from_json(preprocessing)
    if saved is not None:
        target = _agreed(target, saved)
    if raw and target is None:
        raise UsageError(f"{path}:{RAW} leaves the target as it is; say which column is the target")
    file = with_class_names(read(path, _words(saved, target, reading)), target)
    three_counts(len(file), str(path))  # too few rows are said before anything that follows from it
    if target is not None and (missing := np.isnan(file.numbers(target))).any():
        raise file.wrong(int(missing.argmax()), target, "the target is missing; fill it in or take the row out")
    if saved is not None:
        splits = _split(file, saved.target, reading)
        return Prepared(file, splits, saved, {})
    kind = None if target is None else _target_kind(file, target, raw, reading)
    choices = choose(file, target, reading)
    if all(choice.kind == "drop" for choice in choices.values()):
        raise DataError(_nothing_left(file, target, choices))
    whole = None if kind is None or target is None else kind.fit(file, target)
    splits = _split(file, whole, reading)
    return Prepared(file, splits, _fit(file.rows(splits["train"]), choices, kind, target, raw), choices)


def fit_target(file: CsvFile, name: str) -> tuple[Column, list[Tensor]]:
    """The target of examples that are not rows of a table, by the rules of one, and the rows of the three splits.

    All classes of the file are known, whatever the split that they occur in.
    """
    named = with_class_names(file, name)
    if (missing := np.isnan(named.numbers(name))).any():
        raise named.wrong(int(missing.argmax()), name, "the target is missing; fill it in or take the row out")
    kind = _target_kind(named, name, False, {})
    classes = named.coded(name)[1] if kind is Category else np.zeros(len(file), dtype=np.int64)
    parts = cut(stratified_order(classes, seed=0), three_counts(len(file), str(file.path)))
    return kind.fit(named if kind is Category else named.rows(parts[0].numpy()), name), parts


def labels_of(file: CsvFile, target: Column) -> Tensor | None:
    """The labels in a file, classes or standardized numbers; None where it does not have the target in every row."""
    found = Table((), target).batch(with_class_names(file, target.name))
    return found.labels


def all_labels_of(file: CsvFile, target: Column) -> Tensor:
    """The labels in a file that must have the target in every row."""
    labels = labels_of(file, target)
    if labels is None:
        raise DataError(f"{file.path} has not the target {target.name!r} in every row, by which the data were labeled")
    return labels


def fit_features(file: CsvFile, reading: Mapping[str, Any]) -> Table:
    """The preprocessing of a table all of whose columns are features, fitted on all of its rows."""
    return _fit_columns(file, choose(file, None, reading), bent=True)


def _target_kind(file: CsvFile, name: str, raw: bool, reading: Reading) -> type[Number] | type[Category]:
    asked = asked_kinds(file, reading).get(name)
    if asked in ("drop", "date"):
        raise UsageError(f"{name!r} is the target, a number or a category; it cannot be {asked}")
    cells = file.column(name)
    different = len(np.unique(cells.numbers))  # at most as many as there are texts, and found much faster
    if different == 1 and len(texts := cells.coded[0]) == 1:
        raise DataError(f"{file.path}: the target {name!r} is {texts[0]} in every row, so there is nothing to learn")
    if raw or asked is not None:
        return Number if raw or asked == "number" else Category
    if not cells.numeric:
        _refuse_no_classes(file, name, cells.coded[0])
        return Category
    whole = np.isfinite(cells.numbers) & (np.floor(cells.numbers) == cells.numbers)
    few = different <= MOST_CLASSES and len(cells.coded[0]) <= min(MOST_CLASSES, len(file) // 2)
    return Category if few and whole.all() else Number


def _refuse_no_classes(file: CsvFile, name: str, texts: Sequence[str]) -> None:
    """Raise an error if the texts of a target are dates, numbers in disguise, or too many to be classes."""
    otherwise = f"or say --column '{name}=category' to take each as a class"
    if date_texts.form_of(texts):
        raise DataError(
            f"{file.path}: the target {name!r} holds dates ({texts[0]!r}), but a number or classes are predicted; "
            f"write it as a number, such as the days since a fixed date, {otherwise}"
        )
    if len(texts) <= MOST_CLASSES:
        return
    refuse_strays(file, name, texts)
    if readable := readable_numbers(texts):
        raise DataError(f"{file.path}: the target {name!r} would be {len(texts):,} classes: {readable}, {otherwise}")
    if 2 * len(texts) > len(file):
        raise DataError(
            f"{file.path}: the target {name!r} has {len(texts):,} different texts in {len(file):,} rows, too many to "
            f"be classes; take another column as the target, {otherwise}"
        )


def _split(file: CsvFile, target: Column | None, reading: Reading) -> dict[str, NDArray[np.int64]]:
    """The rows of each split."""
    group, by = reading.get("group"), reading.get("split_by")
    if group is not None and by is not None:
        raise UsageError(
            f"rows are split by group or in the order of a column; leave out --group {group} or --split-by"
        )
    counts = three_counts(len(file), str(file.path))
    if group is not None:
        parts = grouped_order(file.coded(group)[1], counts, str(file.path), group)
    elif by is not None:
        parts = ordered_parts(_in_order(file, by), counts, str(file.path), by)
    else:
        classes = target.codes(file) if isinstance(target, Category) else np.zeros(len(file), dtype=np.int64)
        parts = [rows.numpy() for rows in cut(stratified_order(classes, seed=0), counts)]
        parts = _with_every_class(parts, classes, file)
    return dict(zip(("train", "valid", "test"), parts, strict=True))


def _in_order(file: CsvFile, name: str) -> NDArray[np.float64]:
    """The values of a column of numbers or dates by which rows are put in order."""
    cells = file.column(name)
    values = numbers_of(file, name) if cells.numeric else Date.fit(file, name).days(file)
    if (missing := np.isnan(values)).any():
        raise file.wrong(int(missing.argmax()), name, "rows are split by this column, and here it is missing")
    return values


def _with_every_class(
    parts: list[NDArray[np.int64]], classes: NDArray[np.int64], file: CsvFile
) -> list[NDArray[np.int64]]:
    """The splits, but that the first row of a class without any in the training, which could never be learned, is."""
    train, *held = parts
    known = np.bincount(classes[train], minlength=classes.max() + 1) > 0
    rest = np.concatenate(held)
    strange, first = np.unique(classes[rest], return_index=True)
    moved = rest[first[~known[strange]]]
    held = [part[~np.isin(part, moved)] for part in held]
    if not all(map(len, held)):
        raise DataError(f"{file.path} has too few rows for its classes: none is left to validate or test")
    return [np.sort(np.concatenate([train, moved])), *held]


def _fit(
    file: CsvFile,
    choices: Mapping[str, Choice],
    kind: type[Number] | type[Category] | None,
    target: str | None,
    raw: bool,
) -> Table:
    predicted = None if kind is None or target is None else kind.fit(file, target)
    if raw and isinstance(predicted, Number):
        predicted = replace(predicted, mean=0.0, std=1.0)
    return replace(_fit_columns(file, choices, bent=target is not None), target=predicted)


def _fit_columns(file: CsvFile, choices: Mapping[str, Choice], bent: bool) -> Table:
    columns: list[Column] = []
    for name, choice in choices.items():
        if choice.kind == "category":
            columns.append(Category.fit(file, name, most=MOST_FEATURES))
        elif choice.kind != "drop":
            fitted = Date if choice.kind == "date" else Number
            columns.append(fitted.fit(file, name, bent=bent))
    left_out = tuple(
        Dropped(name, choice.why, choice.names_rows) for name, choice in choices.items() if choice.kind == "drop"
    )
    if all(_holds_zeros_and_ones(file, column) for column in columns):  # a table of yes and no: models of binary data
        columns = [replace(column, mean=0.0, std=1.0) if isinstance(column, Number) else column for column in columns]
    return Table(tuple(columns), None, left_out)


def _holds_zeros_and_ones(file: CsvFile, column: Column) -> bool:
    if type(column) is not Number or column.indicator:
        return False
    values = numbers_of(file, column.name)
    return bool(((values == 0) | (values == 1)).all())


def _nothing_left(file: CsvFile, target: str | None, choices: Mapping[str, Choice]) -> str:
    besides = "" if target is None else f" besides the target {target!r}"
    if not choices:
        return f"{file.path} has no column but the target {target!r}; there is nothing to predict it from"
    why = "; ".join(f"{name}: {choice.why}" for name, choice in list(choices.items())[:3])
    return f"{file.path} has nothing to learn from{besides} ({why}); --column NAME=category keeps a column"


def _words(table: Table | None, target: str | None, reading: Reading) -> list[str | None]:
    """The columns that are read as texts, even where these are numbers."""
    asked = [name for name, kind in parse_kinds(reading.get("column") or ()).items() if kind in ("category", "date")]
    return [target, *asked, *(words_of(table) if table else ()), reading.get("group")]


def _agreed(target: str | None, saved: Table) -> str | None:
    known = None if saved.target is None else saved.target.name
    if target not in (None, known):
        raise UsageError(f"the saved preprocessing has the target {known!r}, but {target!r} was given; leave it out")
    return known

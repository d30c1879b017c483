"""The profile of a table: what each column holds and what becomes of it, in words, numbers and a small picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepcanon.core.hints import listed
from deepcanon.core.plural import counted
from deepcanon.core.reading import Reading
from deepcanon.data.tables.column_rule import Choice
from deepcanon.data.tables.csv_file import CsvFile
from deepcanon.data.tables.date_texts import text_of
from deepcanon.data.tables.prepared_table import Prepared, prepared
from deepcanon.data.tables.table_columns import Category, Column, Date, kind_of

BARS = " ▁▂▃▄▅▆▇█"
WIDTH = 16
"""The bars of the picture of a column."""

SHOWN = 3
"""The categories that are named with their shares."""

IMBALANCED = 5.0
"""Classes are imbalanced where the largest has so many times the rows of the smallest."""

BOOLEANS = ({"yes", "no"}, {"true", "false"}, {"y", "n"}, {"t", "f"})


@dataclass(frozen=True)
class ColumnProfile:
    """The profile of a column: what it holds, and what becomes of it.

    Arguments:
        name: The name of the column.
        kind: Its kind: number, category, date, or drop; that of the target is said to be one in ``says``.
        says: What it holds and what becomes of it.
        picture: A histogram of its numbers or dates, or the shares of its most frequent categories, as bars.
        missing: The share of rows without a value.
        features: How many features it becomes.
    """

    name: str
    kind: str
    says: str
    picture: str
    missing: float
    features: int


@dataclass(frozen=True)
class Profile:
    """The profile of a whole table: its splits, its columns, and what is worth knowing before a training."""

    path: Path
    rows: Mapping[str, int]
    columns: tuple[ColumnProfile, ...]
    says: tuple[str, ...]


def profile(path: Path, forms: tuple[str, ...] = (), reading: Reading | None = None) -> Profile:
    """What becomes of the table in a file when it is read so."""
    ready = prepared(path, forms, reading or {})
    fitted = {column.name: column for column in (*ready.table.columns, ready.table.target) if column is not None}
    target = ready.table.target.name if ready.table.target else None
    columns = tuple(
        _column(ready.file, name, fitted.get(name), ready.choices.get(name), name == target)
        for name in ready.file.columns
    )
    counts = {split: len(rows) for split, rows in ready.splits.items()}
    return Profile(path, counts, columns, tuple(remarks(ready)))


def remarks(ready: Prepared) -> list[str]:
    """What is worth knowing before a training: a summary, and a sentence for each matter that is not plain."""
    if not ready.choices:
        return []
    table, file = ready.table, ready.file
    counts = {split: len(rows) for split, rows in ready.splits.items()}
    kinds = [kind_of(column) for column in table.columns]
    made = [
        counted(kinds.count(kind), kind, "", plural)
        for kind, plural in (("number", "numbers"), ("category", "categories"), ("date", "dates"))
        if kind in kinds
    ]
    of = "" if table.target is None else f" to predict {table.target.name}"
    rows = ", ".join(f"{count:,} {split}" for split, count in counts.items())
    give = "gives" if len(table.columns) == 1 else "give"
    features = counted(table.sizes()["features"], "feature", ",")
    said = [f"{file.path}: {len(file):,} rows ({rows}); {', '.join(made)} {give} {features}{of}."]
    numbers = [column for column in table.columns if not isinstance(column, Category)]
    folded = [column for column in table.columns if isinstance(column, Category) and column.other]
    for title, names in (
        ("Dropped", [f"{column.name} ({column.why})" for column in table.dropped]),
        ("Missing values, filled with the median and flagged", [_missed(file, c.name) for c in numbers if c.indicator]),
        ("Heavy tails, bent by arsinh", [column.name for column in numbers if column.bend]),
        ("Dates", [f"{c.name} ({_becomes(c)})" for c in numbers if isinstance(c, Date)]),
        (
            "Many categories, of which the rarer ones share a feature",
            [f"{c.name} ({len(c.values) + c.other:,})" for c in folded],
        ),
        ("Codes, taken as categories", [name for name, choice in ready.choices.items() if "code" in choice.why]),
        (
            "Taken as categories",
            [
                f"{name} ({choice.why})"
                for name, choice in ready.choices.items()
                if choice.kind == "category" and "look like numbers" in choice.why
            ],
        ),
    ):
        if names:
            said.append(f"{title}: {listed(names)}.")
    for split in ("valid", "test"):
        unknown = table.unknown(file.rows(ready.splits[split]))
        said += [f"In the {split} split, column {name!r}: {each}." for name, each in unknown.items()]
    return [*said, *_imbalance(file, table.target)]


def spark(heights: Sequence[float] | NDArray[Any]) -> str:
    """Bars of these heights, the highest of which fills its line.

    >>> spark([0, 1, 2, 4])
    ' ▂▄█'
    """
    most = max(heights, default=0)
    levels = [0 if most == 0 else int(np.ceil(8 * float(height) / float(most))) for height in heights]
    return "".join(BARS[level] for level in levels)


def _column(file: CsvFile, name: str, column: Column | None, choice: Choice | None, target: bool) -> ColumnProfile:
    missing, kind = file.column(name).missing, "drop" if column is None else kind_of(column)
    if column is None:
        says = f"dropped: {choice.why if choice else ''}"
        return ColumnProfile(name, kind, says, "", missing, 0)
    said, picture = _category(file, column) if isinstance(column, Category) else _number(file, column)
    if target:
        what = "classes" if isinstance(column, Category) else "a number"
        said = [f"the target, {what}", *said[1:]]
    elif choice is not None and choice.why:
        said.append(choice.why)
    if missing and isinstance(column, Category):
        said.append(f"{_percent(missing)} missing, a category of its own")
    elif missing:
        flagged = " and flagged" if column.indicator else ""  # type: ignore[union-attr]
        said.append(f"{_percent(missing)} missing, filled with the median{flagged}")
    return ColumnProfile(name, kind, ", ".join(said), picture, missing, column.features)


def _number(file: CsvFile, column: Any) -> tuple[list[str], str]:
    values = column.days(file) if isinstance(column, Date) else file.numbers(column.name)
    there = values[np.isfinite(values)]
    low, high = float(there.min()), float(there.max())
    picture = spark(_histogram(there, low, high))
    if isinstance(column, Date):
        return ["date", f"{text_of(low)} to {text_of(high)}", f"becomes {_becomes(column)}"], picture
    said = ["number", f"median {column.median:.4g}", f"{low:.4g} to {high:.4g}"]
    if low == high:
        said = ["number", f"{low:.4g} in every row"]
    if column.bend:
        said.append(f"heavy tail, bent by arsinh at {column.bend:.3g}")
    return said, picture


def _category(file: CsvFile, column: Category) -> tuple[list[str], str]:
    texts, codes = file.coded(column.name)
    counts = np.bincount(codes, minlength=len(texts))
    order = np.argsort(-counts, kind="stable")
    shares = [(texts[place], counts[place] / len(file)) for place in order.tolist() if texts[place]]
    boolean = {text.lower() for text, _ in shares} in BOOLEANS
    named = ", ".join(f"{text} {_percent(share)}" for text, share in shares[:SHOWN])
    more = "" if len(shares) <= SHOWN else " ..."
    said = ["boolean" if boolean else "category", f"{counted(len(shares), 'value', ',')}: {named}{more}"]
    if column.other:
        said.append(f"the {len(column.values)} most frequent have a feature each, all others share one")
    return said, spark([share for _, share in shares[:WIDTH]])


def _histogram(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.int64]:
    if low == high:
        return np.array([len(values)])
    with np.errstate(over="ignore", invalid="ignore"):
        places = np.minimum((values - low) * (WIDTH / (high - low)), WIDTH - 1)
    return np.bincount(np.nan_to_num(places).astype(np.int64), minlength=WIDTH)


def _imbalance(file: CsvFile, target: Column | None) -> Iterable[str]:
    if not isinstance(target, Category):
        return
    counts = np.bincount(target.codes(file)[target.codes(file) >= 0], minlength=len(target.values))
    large, small = int(counts.argmax()), int(counts.argmin())
    if counts[large] >= IMBALANCED * counts[small]:
        shares = " and ".join(
            f"{target.values[place]!r} {_percent(counts[place] / len(file))}" for place in (large, small)
        )
        yield (
            f"The classes of {target.name} are imbalanced ({shares} of the rows): train --class-weight balanced makes "
            "the rare ones count as much."
        )


def _becomes(column: Date) -> str:
    cycles = " and ".join(column.cycles)
    return f"days, and the time of {cycles}" if cycles else "days"


def _missed(file: CsvFile, name: str) -> str:
    return f"{name} ({_percent(file.column(name).missing)})"


def _percent(share: float) -> str:
    """A share in percent.

    >>> _percent(0.031), _percent(0.0004), _percent(0.994)
    ('3 %', '0.04 %', '99 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1g} %"

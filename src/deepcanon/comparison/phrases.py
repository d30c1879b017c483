"""Phrases of the sentences about a comparison: names in a row, differences with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from deepcanon.comparison.columns import Column
from deepcanon.comparison.differences import LEVEL, Difference
from deepcanon.comparison.tables import Row, Section

MOST_IN_SHORT = 3
"""Of more rows that cannot be told apart, the table alone has each with its interval."""


def difference_words(gap: Difference, column: Column) -> tuple[str, str]:
    """A difference, and the interval of it.

    >>> gap: Difference = {"first": "a", "second": "b", "form": "plain", "measure": "log_loss", "difference": 0.25,
    ...                    "low": 0.125, "high": 0.375, "examples": 9}
    >>> difference_words(gap, Column("log loss", lambda measured: None, "{:.2f}"))
    ('0.25', '0.12 to 0.38')
    """
    center, low, high = (column.write(value) for value in (gap["difference"], gap["low"], gap["high"]))
    return center, f"{low} to {high}"


def interval_words(gap: Difference, column: Column) -> str:
    """A difference with its interval, in a sentence."""
    center, interval = difference_words(gap, column)
    return f"{center} ({LEVEL:.0%} interval {interval})"


def differences_from(section: Section, first: Row, tied: Sequence[Row], column: Column) -> str:
    """The differences of some rows from the first, with their intervals."""
    gaps = [gap for row in tied if (gap := section.difference(row, first, column)) is not None]
    if len(gaps) == 1:
        return f"difference {interval_words(gaps[0], column)}"
    listed = ", ".join(f"{gap['first']} {interval_words(gap, column)}" for gap in gaps)
    return f"differences from {first.label}: {listed}"


def range_words(rows: Sequence[Row], column: Column) -> str:
    """From the best to the worst value of many rows, whose table has each with its interval."""
    first, last = (column.write(row.mean(column)) for row in (rows[0], rows[-1]))
    return f"{column.title} from {first} to {last}, and the interval of each difference from {rows[0].label} holds 0"


def joined(names: Sequence[str]) -> str:
    """Names in a sentence: a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def value_of(row: Row, column: Column) -> float:
    return row.mean(column) or 0.0

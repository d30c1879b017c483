"""CSV files read into named columns of text, with an error for everything that is malformed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from deepcanon.core import DataError
from deepcanon.core.hints import did_you_mean
from deepcanon.core.memory import need

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""The texts that stand for a missing value, in upper or lower case."""

BYTES = 10
"""The bytes that each byte of a file takes while it is read: texts are objects of Python's."""


@dataclass(frozen=True)
class CsvFile:
    """A CSV file as columns of text by name; a missing value is the empty text. ``lines`` are where each row ends."""

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> list[str]:
        if name not in self.columns:
            raise DataError(f"{self.path} has no column {name!r}; {did_you_mean(name, self.columns)}")
        return self.columns[name]

    def rows(self, rows: list[int]) -> CsvFile:
        """The file as if it had these rows only."""
        columns = {name: [texts[row] for row in rows] for name, texts in self.columns.items()}
        return CsvFile(self.path, columns, [self.lines[row] for row in rows])

    def wrong(self, row: int, name: str, problem: str) -> DataError:
        """An error that says where in the file something is wrong."""
        return DataError(f"{self.path}, line {self.lines[row]}, column {name!r}: {problem}")


def read(path: Path) -> CsvFile:
    """The file's columns: UTF-8, values separated by commas, names in the first line."""
    try:
        need(BYTES * path.stat().st_size, f"reading {path}", "take some of its rows")
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True, skipinitialspace=True)
            records = [(reader.line_num, record) for record in reader if record]
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8: byte {error.object[error.start]:#04x} at position {error.start}; save it as UTF-8"
        ) from error
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: this is not CSV, {error}") from error
    if not records:
        raise DataError(f"{path} is empty; its first line must name the columns")
    (_, header), *rows = records
    names = _names(path, header)
    if not rows:
        raise DataError(f"{path} names its columns but has no rows")
    for line, record in rows:
        if len(record) != len(names):
            raise DataError(f"{path}, line {line} has {len(record)} values, but there are {len(names)} columns")
    columns = {name: [_text(record[column]) for _, record in rows] for column, name in enumerate(names)}
    return CsvFile(path, columns, [line for line, _ in rows])


def number(text: str) -> float | None:
    """The number that a text writes, or None.

    >>> number("2.5e1"), number("1_000"), number("red")
    (25.0, None, None)
    """
    if "_" in text:  # Python reads 1_000 as a number, a CSV does not mean it so
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _names(path: Path, header: list[str]) -> list[str]:
    names = [name.strip() for name in header]
    if len(names) == 1 and (mark := next((mark for mark in ";\t" if mark in names[0]), None)):
        raise DataError(f"{path} seems to separate its values by {mark!r}; separate them by commas")
    seen: set[str] = set()
    for column, name in enumerate(names):
        if not name:
            raise DataError(f"{path}: column {column + 1} has no name; name it or take it out (an index, for example)")
        if name in seen:
            raise DataError(f"{path} has two columns named {name!r}; every column needs a name of its own")
        seen.add(name)
    return names


def _text(value: str) -> str:
    value = value.strip()
    return "" if value.lower() in MISSING else value

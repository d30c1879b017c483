"""Rows of CSV files as they are written: texts, of which none stands for a missing value."""

from __future__ import annotations

import csv
import io
from itertools import islice
from pathlib import Path

from deepcanon.core import DataError
from deepcanon.core.memory import need
from deepcanon.data.tables.csv_file import ARROW

BYTES = 20
"""The bytes that a byte of a file takes at most, as Python's texts."""

LINES = 20
"""Of a file whose first rows are read, at most so many lines are, for each of them."""


def written_rows(path: Path, most: int | None = None) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of the columns, and of each row, or so many at most, the line at which it ends and its cells."""
    content = _content(path, most)
    stream = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv.reader(stream, strict=True, skipinitialspace=True)
    try:
        found = ((reader.line_num, record) for record in reader if record)
        records = list(islice(found, None if most is None else 1 + most))
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: this is not CSV, {error}") from error
    except UnicodeDecodeError:
        raise not_utf8(path, content) from None
    if not records:
        raise DataError(f"{path} is empty; its first line must name the columns")
    (_, header), *rows = records
    names = [name.strip() for name in header]
    check_names(path, names)
    for line, record in rows:
        if len(record) != len(names):
            raise DataError(f"{path}, line {line} has {len(record)} values, but there are {len(names)} columns")
    return names, rows


def column_names(path: Path) -> list[str]:
    """The names of the columns of a CSV file, or of another file of columns."""
    if path.suffix.lower() in ARROW:
        from deepcanon.data.tables.arrow_file import arrow_names  # pyarrow is slow to import

        return arrow_names(path)
    return written_rows(path, 0)[0]


def read_bytes(path: Path, bytes_of_byte: int = BYTES) -> bytes:
    """The bytes of a file that fits into memory, where each takes so many."""
    try:
        need(bytes_of_byte * path.stat().st_size, f"reading {path}", "take some of its rows")
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def check_names(path: Path, names: list[str]) -> None:
    """Refuse columns without a name, and two of one name."""
    if "" in names:
        raise DataError(f"{path}: column {names.index('') + 1} has no name; name it or take it out")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{path} has two columns named {twice!r}; every column needs a name of its own")


def not_utf8(path: Path, content: bytes) -> DataError:
    """The error of a file in another encoding."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        place = f"line {line} has the byte 0x{content[error.start]:02x}"
    return DataError(f"{path} is not UTF-8: {place}; save it as UTF-8")


def _content(path: Path, most: int | None) -> bytes:
    if most is None:
        return read_bytes(path)
    try:
        with path.open("rb") as stream:
            return b"".join(islice(stream, LINES * (1 + most)))
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error

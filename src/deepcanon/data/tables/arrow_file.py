"""Files of columns with types, Parquet and Feather, read as a CSV file of the same columns is; frames in memory, too.

A number is that number, a missing value is missing, and all else is the text that a CSV file of it would have: a date
is written as in ISO 8601, a boolean as ``true`` or ``false``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deepcanon.core import DataError
from deepcanon.core.memory import need
from deepcanon.data.tables.csv_cells import Cells
from deepcanon.data.tables.csv_file import ARROW, CsvFile
from deepcanon.data.tables.csv_rows import check_names

BYTES = 3
"""For each byte of a table, so many are taken while it is read."""

Arrow = Any
"""A table of Arrow's."""


class ArrowFile(CsvFile):
    """A file of Arrow's columns; what is wrong in it is named by its row, counted from 1."""

    def wrong(self, row: int, name: str, problem: str) -> DataError:
        return DataError(f"{self.path}, row {self.line(row)}, column {name!r}: {problem}")

    def line(self, row: int) -> int:
        return int(self.places[row]) + 1


def read_arrow(path: Path) -> ArrowFile:
    """The columns of a Parquet or Feather file."""
    table = plain_table(path)
    return ArrowFile(path, {name: _cells(table.column(name)) for name in table.column_names}, np.arange(len(table)))


def arrow_names(path: Path) -> list[str]:
    """The names of the columns of a file, without reading these."""
    with _readable(path):
        if path.suffix.lower() == ARROW[0]:
            from pyarrow import parquet

            return list(parquet.read_schema(path).names)
        import pyarrow as pa

        with pa.memory_map(str(path)) as file:
            return list(pa.ipc.open_file(file).schema.names)


def plain_table(path: Path) -> Arrow:
    """The table in a file, in which every column holds numbers or texts."""
    import pyarrow as pa

    with _readable(path):
        table = _read(path)
    names = table.column_names
    check_names(path, names)
    if not names or not len(table):
        raise DataError(f"{path} has {len(names)} columns and no rows")
    return pa.table({name: _plain(path, name, table.column(name)) for name in names})


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Says in a sentence why a file cannot be read."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except (OSError, pa.ArrowException) as error:
        what = "Parquet" if path.suffix.lower() == ARROW[0] else "Feather (Arrow IPC)"
        raise DataError(f"{path} cannot be read as {what}: {str(error).splitlines()[0][:200]}") from error


def _read(path: Path) -> Arrow:
    if path.suffix.lower() == ARROW[0]:
        from pyarrow import parquet

        facts = parquet.read_metadata(path)
        size = sum(facts.row_group(group).total_byte_size for group in range(facts.num_row_groups))
        need(BYTES * size, f"reading {path}", "take some of its rows")
        return parquet.read_table(path, use_threads=False)
    from pyarrow import feather

    need(BYTES * path.stat().st_size, f"reading {path}", "take some of its rows")
    return feather.read_table(path, use_threads=False)


def _plain(path: Path, name: str, column: Arrow) -> Arrow:
    """A column as numbers or texts."""
    import pyarrow as pa
    import pyarrow.types as kinds

    kind = column.type.value_type if kinds.is_dictionary(column.type) else column.type
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        return column.cast(kind)
    if kinds.is_decimal(kind):
        return column.cast(pa.float64())
    if kinds.is_timestamp(kind) or kinds.is_date(kind):
        return _dates(column)
    if kinds.is_nested(kind) or kinds.is_duration(kind) or kinds.is_binary(kind) or kinds.is_large_binary(kind):
        raise DataError(f"{path}: column {name!r} holds {kind}; columns are numbers, texts, dates or booleans")
    return column.cast(pa.large_string())


def _dates(column: Arrow) -> Arrow:
    """Dates and times as they are written: days as days, and no digits of a second that are all zero."""
    import pyarrow as pa

    zone = getattr(column.type, "tz", None)
    if zone is None and column.cast(pa.date32()).cast(column.type).equals(column):
        return column.cast(pa.date32()).cast(pa.large_string())
    for unit in ("s", "us"):
        try:
            return column.cast(pa.timestamp(unit, zone)).cast(pa.large_string())
        except pa.ArrowInvalid:  # it would lose something
            continue
    return column.cast(pa.large_string())


def _cells(column: Arrow) -> Cells:
    import pyarrow as pa
    import pyarrow.types as kinds

    if not (kinds.is_integer(column.type) or kinds.is_floating(column.type)):
        return Cells(partial(_texts, column))
    return Cells(partial(_texts, column), column.cast(pa.float64(), safe=False).to_numpy())


def _texts(column: Arrow) -> Arrow:
    """The texts that a CSV file of a column would have; what is not a number is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    return column.cast(pa.large_string())

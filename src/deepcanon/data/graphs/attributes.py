"""Attributes of nodes and edges of files other than tables, as the columns of one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deepcanon.core import DataError
from deepcanon.core.hints import listed
from deepcanon.data.tables.csv_cells import Cells, Texts
from deepcanon.data.tables.csv_file import CsvFile


@dataclass(frozen=True)
class Attributes(CsvFile):
    """A table of attributes, whose rows are called by the names of their nodes or edges."""

    rows_named: tuple[str, ...] = ()

    def column(self, name: str) -> Cells:
        if name not in self.columns:
            there = f"; there are {listed(self.columns)}" if self.columns else ""
            raise DataError(f"{self.path} has no attribute {name!r}{there}")
        return self.columns[name]

    def wrong(self, row: int, name: str, problem: str) -> DataError:
        """An error that says of which node or edge something is wrong."""
        return DataError(f"{self.path}, {self.rows_named[self.places[row]]}, attribute {name!r}: {problem}")


def attributes(path: Path, rows: Sequence[Mapping[str, Any]], rows_named: Sequence[str]) -> Attributes:
    """The attributes of each row as columns of texts; one that a row does not have is missing.

    Nested records, as those that say where a node is drawn, are left out.
    """
    names = dict.fromkeys(name for row in rows for name, value in row.items() if not isinstance(value, dict))
    return text_columns(path, {name: [_text(row.get(name)) for row in rows] for name in names}, rows_named)


def text_columns(path: Path, columns: Mapping[str, Sequence[str]], rows_named: Sequence[str]) -> Attributes:
    """Columns of texts as a table."""
    cells = {name: Cells(partial(_texts, texts)) for name, texts in columns.items()}
    return Attributes(path, cells, np.arange(len(rows_named)), rows_named=tuple(rows_named))


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value) if isinstance(value, bool | list | tuple) else str(value)


def _texts(texts: Sequence[str]) -> Texts:
    import pyarrow as pa

    return pa.chunked_array([texts], pa.large_string())

"""Pieces of a CSV file put together as the whole."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deepcanon.data.tables.csv_cells import Cells, Texts
from deepcanon.data.tables.csv_file import CsvFile, written_in


class Gathered:
    """The columns of consecutive pieces, put together.

    Numbers are written into arrays of about the size of the whole file: small ones, put together in the end, would take
    the memory twice.
    """

    def __init__(self, path: Path, capacity: int) -> None:
        self.path, self.capacity = path, capacity
        self.numbers: dict[str, NDArray[np.float64]] = {}
        self.texts: dict[str, list[Texts]] = {}
        self.names: list[str] = []
        self.pieces = self.rows = 0

    def add(self, piece: CsvFile) -> None:
        self.names = list(piece.columns)
        start, self.rows = self.rows, self.rows + len(piece)
        self.capacity = self.capacity if self.rows <= self.capacity else 2 * self.rows
        for name, cells in piece.columns.items():
            if cells.known is None:
                self.texts.setdefault(name, []).append(cells.written())
                self.numbers.pop(name, None)
            elif name in self.numbers or start == 0:
                held = self.numbers.setdefault(name, np.empty(self.capacity))
                if len(held) < self.rows:
                    self.numbers[name] = held = np.concatenate([held, np.empty(self.capacity - len(held))])
                held[start : self.rows] = cells.known
        self.pieces += 1

    def file(self) -> CsvFile:
        return CsvFile(self.path, {name: self._cells(name) for name in self.names}, np.arange(self.rows))

    def _cells(self, name: str) -> Cells:
        """The cells of a column; where only some of the pieces hold numbers, they are read again as texts."""
        import pyarrow as pa

        if name in self.numbers:
            return Cells(partial(written_in, self.path, name), self.numbers[name][: self.rows])
        if len(self.texts[name]) < self.pieces:
            return Cells(partial(written_in, self.path, name))
        chunks = [chunk.cast(pa.large_string()) for texts in self.texts[name] for chunk in texts.chunks]
        whole = pa.chunked_array(chunks)
        return Cells(lambda: whole)

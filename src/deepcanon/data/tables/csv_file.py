"""CSV files read into named columns of texts and numbers, with an error for everything that is malformed.

Python's own :mod:`csv` says what a file holds and where it is malformed. Arrow's reader is many times faster and less
strict: it is given only what both read alike, and where it stumbles, Python's reads the file and names the line.

A file is read piece by piece, each of which ends with a record: one after the other by :func:`read_pieces`, for files
of any size, or all of them together by :func:`read`, so that its text is never in memory as a whole.
"""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepcanon.core import DataError
from deepcanon.core.hints import did_you_mean
from deepcanon.core.memory import need
from deepcanon.data.tables.csv_cells import MISSING_AS_WRITTEN, PEEK, Cells, Texts, as_numbers, look_numeric
from deepcanon.data.tables.csv_pieces import PIECE, Piece, opened, pieces_of, records_of

BYTES_OF_CELL = 20
"""The bytes that a cell takes while a file is read: a number in double precision, or a short text."""

RECORDS = 2**14
"""The records that Python's reader reads at a time."""

ARROW = (".parquet", ".feather", ".arrow")
"""Files that hold columns with their types, read as a CSV file of the same columns is."""


def is_csv(path: Path) -> bool:
    """Whether a path is that of a CSV file, or of another file of columns that is read alike, by its name."""
    return path.suffix.lower() in (".csv", *ARROW) and not path.is_dir()


@dataclass(frozen=True)
class CsvFile:
    """A CSV file as columns by name, or some of its rows: ``places`` says which of those that are read.

    These begin with the row ``first`` of the file.
    """

    path: Path
    columns: dict[str, Cells]
    places: NDArray[np.int64]
    first: int = 0
    selected: bool = False
    """Whether these are some of the rows that are read, or in another order."""

    def __len__(self) -> int:
        return len(self.places)

    def column(self, name: str) -> Cells:
        if name not in self.columns:
            raise DataError(f"{self.path} has no column {name!r}; {did_you_mean(name, self.columns)}")
        return self.columns[name]

    def text(self, row: int, name: str) -> str:
        return self.column(name).text(int(self.places[row]))

    def coded(self, name: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The different texts of a column of the whole file, and the index of each row's among them."""
        texts, codes = self.column(name).coded
        return texts, codes[self.places] if self.selected else codes

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The number in each row, NaN where it is missing, infinite where there is none."""
        return self.column(name).numbers[self.places]

    def rows(self, rows: NDArray[np.int64]) -> CsvFile:
        """The file as if it had these rows only."""
        return replace(self, places=self.places[rows], selected=True)

    def with_meaning(self, name: str, meaning: Callable[[str], str]) -> CsvFile:
        """The file with other texts in place of those of a column."""
        return replace(self, columns={**self.columns, name: self.column(name).meaning(meaning)})

    def wrong(self, row: int, name: str, problem: str) -> DataError:
        """An error that says where in the file something is wrong."""
        return DataError(f"{self.path}, line {self.line(row)}, column {name!r}: {problem}")

    def line(self, row: int) -> int:
        """The line at which a row ends."""
        with opened(self.path) as stream:
            line, _ = next(islice(records_of(self.path, stream), 1 + self.first + int(self.places[row]), None))
        return line

    def texts(self, name: str) -> list[str]:
        """The cells of a column as they stand in the file."""
        return ["" if cell is None else cell for cell in self.column(name).written().to_pylist()]


def read(path: Path, words: Collection[str | None] = ()) -> CsvFile:
    """The file's columns: UTF-8, values separated by commas, names in the first line.

    ``words`` are columns of which the texts will be asked for, even if they are numbers; others are read for it again.
    """
    if path.suffix.lower() in ARROW:
        from deepcanon.data.tables.arrow_file import read_arrow  # which stands on what is here

        return read_arrow(path)
    with opened(path) as stream:
        beginning = stream.read(2**16)
        size = os.fstat(stream.fileno()).st_size
    cells = (beginning.count(b",") + beginning.count(b"\n")) * size / max(1, len(beginning))
    need(max(size, BYTES_OF_CELL * cells), f"reading {path}", "take some of its rows")
    pieces = read_pieces(path, words)
    first, second = next(pieces), next(pieces, None)
    if second is None:
        return first
    from deepcanon.data.tables.csv_gathered import Gathered  # which stands on what is here

    gathered = Gathered(path, capacity=int(1.1 * len(first) * size / PIECE))
    for piece in chain([first, second], pieces):
        gathered.add(piece)
    return gathered.file()


def read_pieces(path: Path, words: Collection[str | None] = ()) -> Iterator[CsvFile]:
    """The file as consecutive pieces, each with some of its rows; the memory that this takes does not grow with it."""
    if path.suffix.lower() in ARROW:
        yield read(path)
        return
    names: list[str] = []
    numeric: frozenset[str] = frozenset()
    rows = 0
    for piece in pieces_of(path):
        if not names:
            first = [record for _, record in islice(piece.records(), 1 + PEEK)]
            if not first:
                continue
            names, peeked = _names(path, first[0]), first[1:]
            even = peeked if all(len(row) == len(names) for row in peeked) else []
            cells = zip(names, zip(*even, strict=True), strict=True) if even else ()
            numeric = frozenset(name for name, texts in cells if name not in words and look_numeric(texts))
            piece = replace(piece, header=True)
        for columns, count in _read_piece(piece, names, numeric):
            yield CsvFile(path, columns, np.arange(count), rows)
            rows += count
    if not names:
        raise DataError(f"{path} is empty; its first line must name the columns")
    if not rows:
        raise DataError(f"{path} names its columns but has no rows")


def _read_piece(piece: Piece, names: list[str], numeric: Collection[str]) -> Iterator[tuple[dict[str, Cells], int]]:
    """The columns of a piece, with the number of its rows, as Arrow reads them, or in several parts as Python does."""
    import pyarrow as pa

    found = None
    if piece.plain:
        for guess in (numeric, ()):  # further down a number may be none
            with suppress(pa.ArrowInvalid):
                found = _by_arrow(piece, names, guess)
                break
    if found is None or _longest(found) > csv.field_size_limit():
        yield from _read_carefully(piece, names)
    elif found.num_rows:
        rows, columns = found.num_rows, found.columns
        del found  # so that a column goes when its numbers are taken out of it
        yield {name: _cells_of(piece.path, name, columns.pop(0)) for name in names}, rows


def _cells_of(path: Path, name: str, values: Any) -> Cells:
    import pyarrow as pa

    if values.type != pa.float64():
        return Cells(partial(_itself, values))
    return Cells(partial(written_in, path, name), as_numbers(values))


def _by_arrow(piece: Piece, names: Sequence[str], numeric: Collection[str]) -> Any:
    """The table that Arrow reads; columns that are not ``numeric`` are texts."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    content = piece.content
    if piece.header:
        content = content.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    types = {str(place): pa.float64() if name in numeric else pa.string() for place, name in enumerate(names)}
    return arrow.read_csv(
        pa.BufferReader(content),
        arrow.ReadOptions(
            use_threads=False,
            block_size=max(1, len(content)),  # one array for a column, which is then not copied
            column_names=list(types),
            skip_rows_after_names=int(piece.header),
        ),
        arrow.ParseOptions(quote_char='"' if piece.quoted else False, newlines_in_values=piece.quoted),
        arrow.ConvertOptions(column_types=types, null_values=MISSING_AS_WRITTEN, strings_can_be_null=True),
    )


def written_in(path: Path, name: str) -> Texts:
    """The cells of a column of a file as they are written."""
    import pyarrow as pa

    chunks = [chunk for piece in read_pieces(path, [name]) for chunk in piece.columns[name].written().chunks]
    return pa.chunked_array([chunk.cast(pa.large_string()) for chunk in chunks])


def _longest(table: Any) -> int:
    """The bytes of the longest text in a table, if any is longer than Python's reader allows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chunks = (chunk for column in table.columns if column.type == pa.string() for chunk in column.chunks)
    large = (chunk for chunk in chunks if chunk.nbytes > csv.field_size_limit())
    return max((pc.max(pc.binary_length(chunk)).as_py() or 0 for chunk in large), default=0)


def _read_carefully(piece: Piece, names: Sequence[str]) -> Iterator[tuple[dict[str, Cells], int]]:
    """The columns as Python's reader reads them, or an error that says what is wrong with the file, and where."""
    records = islice(piece.records(), int(piece.header), None)
    while part := list(islice(records, RECORDS)):
        for line, record in part:
            if len(record) != len(names):
                raise DataError(
                    f"{piece.path}, line {line} has {len(record)} values, but there are {len(names)} columns"
                )
        columns = zip(*(record for _, record in part), strict=True)
        yield {name: _as_cells(texts) for name, texts in zip(names, columns, strict=True)}, len(part)


def _as_cells(texts: Sequence[str]) -> Cells:
    import pyarrow as pa

    return Cells(partial(_itself, pa.chunked_array([texts], pa.large_string())))


def _itself(texts: Texts) -> Texts:
    return texts


def _names(path: Path, header: list[str]) -> list[str]:
    names = [name.strip() or f"column {place}" for place, name in enumerate(header, start=1)]  # an index has no name
    if len(names) == 1 and (mark := next((mark for mark in ";\t" if mark in names[0]), None)):
        raise DataError(f"{path} seems to separate its values by {mark!r}; separate them by commas")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{path} has two columns named {name!r}; every column needs a name of its own")
        seen.add(name)
    return names

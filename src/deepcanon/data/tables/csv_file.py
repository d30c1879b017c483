"""CSV files read into named columns of texts and numbers, with an error for everything that is malformed.

Python's own :mod:`csv` says what a file holds and where it is malformed. Arrow's reader is many times faster and less
strict: it is given only what both read alike, and where it stumbles, Python's reads the file and names the line.
"""

from __future__ import annotations

import codecs
import csv
import io
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepcanon.core import DataError
from deepcanon.core.hints import did_you_mean
from deepcanon.core.memory import need

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""The texts that stand for a missing value, in upper or lower case."""

BYTES, BYTES_OF_CELL, BYTES_OF_OBJECT = 3, 20, 70
"""The bytes that a file takes while it is read: for each of its bytes, and for each cell, Arrow's or Python's."""

PEEK = 100
"""The rows by which a column is taken for one of numbers; another is read once more."""

PIECE = 2**18
"""The bytes of a file that are searched for quotes at a time."""

Texts = Any
"""A chunked array of Arrow's that holds the cells of a column as they are written; a null is missing, too."""


class Cells:
    """The cells of one column, without the blanks around them; a missing value is the empty text.

    Arguments:
        written: Gives the cells as they are written.
        numbers: The numbers in them, if they are known already.
        meaning: What a text stands for, where different texts stand for the same.
    """

    def __init__(
        self,
        written: Callable[[], Texts],
        numbers: NDArray[np.float64] | None = None,
        meaning: Callable[[str], str] = str,
    ) -> None:
        self._written = written
        self._numbers = numbers
        self._meaning = meaning

    def meaning(self, meaning: Callable[[str], str]) -> Cells:
        """The same cells, with other texts in place of theirs; a number must stay what it is."""
        return Cells(self._written, self._numbers, meaning)

    def text(self, place: int) -> str:
        return self._text(self._texts[place].as_py())

    @cached_property
    def coded(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The different texts, in the order in which they occur, and the index of each cell's among them."""
        chunks = self._texts.dictionary_encode(null_encoding="encode").chunks
        index: dict[str, int] = {}
        same = [index.setdefault(self._text(text), len(index)) for text in chunks[0].dictionary.to_pylist()]
        return tuple(index), np.array(same)[np.concatenate([chunk.indices.to_numpy() for chunk in chunks])]

    @cached_property
    def numeric(self) -> bool:
        """Whether every cell that is not missing holds a number."""
        return self._plain is not None or all(number(text) is not None for text in self.coded[0] if text)

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The number in each cell, NaN where it is missing, infinite where there is none."""
        if self._plain is not None:
            return self._plain
        texts, codes = self.coded
        return np.array([_finite(text) if text else math.nan for text in texts])[codes]

    @cached_property
    def _texts(self) -> Texts:
        return self._written()

    @cached_property
    def _plain(self) -> NDArray[np.float64] | None:
        """The numbers as Arrow reads them, or None if a cell holds anything but a plain number."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._numbers is not None:
            return self._numbers
        if not _look_numeric(self._texts.slice(0, PEEK).to_pylist()):
            return None
        bare = pc.utf8_trim(self._texts, " \t\r\n\v\f")
        there = pc.if_else(pc.is_in(pc.ascii_lower(bare), pa.array(sorted(MISSING), bare.type)), None, bare)
        try:
            return _numbers(pc.cast(there, pa.float64()))
        except pa.ArrowInvalid:
            return None

    def _text(self, cell: str | None) -> str:
        return self._meaning(_plain_text(cell))


@dataclass(frozen=True)
class CsvFile:
    """A CSV file as columns by name, or some of its rows: ``places`` says which. ``content`` is the whole file."""

    path: Path
    columns: Mapping[str, Cells]
    places: NDArray[np.int64]
    content: bytes = field(repr=False)

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
        return texts, codes[self.places]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """The number in each row, NaN where it is missing, infinite where there is none."""
        return self.column(name).numbers[self.places]

    def rows(self, rows: NDArray[np.int64]) -> CsvFile:
        """The file as if it had these rows only."""
        return replace(self, places=self.places[rows])

    def with_meaning(self, name: str, meaning: Callable[[str], str]) -> CsvFile:
        """The file with other texts in place of those of a column."""
        return replace(self, columns={**self.columns, name: self.column(name).meaning(meaning)})

    def wrong(self, row: int, name: str, problem: str) -> DataError:
        """An error that says where in the file something is wrong."""
        return DataError(f"{self.path}, line {self.line(row)}, column {name!r}: {problem}")

    def line(self, row: int) -> int:
        """The line at which a row ends."""
        line, _ = next(islice(_records(self.path, self.content), 1 + int(self.places[row]), None))
        return line


def read(path: Path, words: Collection[str | None] = ()) -> CsvFile:
    """The file's columns: UTF-8, values separated by commas, names in the first line.

    ``words`` are columns of which the texts will be asked for, even if they are numbers; others are read for it again.
    """
    try:
        need(BYTES * path.stat().st_size, f"reading {path}", "take some of its rows")
        content = path.read_bytes()
        need(BYTES_OF_CELL * _cells(content), f"reading {path}", "take some of its rows")
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    columns, rows = _read_fast(path, content, words) or _read_carefully(path, content)
    if not rows:
        raise DataError(f"{path} names its columns but has no rows")
    return CsvFile(path, columns, np.arange(rows), content)


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


def _cells(content: bytes) -> float:
    """About how many cells a file has: as many as its beginning has in its share."""
    beginning = content[: 2**16]
    return (beginning.count(b",") + beginning.count(b"\n")) * len(content) / max(1, len(beginning))


def _read_fast(path: Path, content: bytes, words: Collection[str | None]) -> tuple[dict[str, Cells], int] | None:
    """The columns as Arrow reads them, and the number of rows; None if Python's reader might read something else."""
    import pyarrow as pa

    first = [record for _, record in islice(_records(path, content), 1 + PEEK)]
    if not first or b"\0" in content or not _plainly_quoted(content):
        return None
    header, *rows = first
    names = _names(path, header)
    if any(len(row) != len(names) for row in rows):
        return None
    cells = enumerate(zip(names, zip(*rows, strict=True), strict=True)) if rows else ()
    numeric = {column for column, (name, texts) in cells if name not in words and _look_numeric(texts)}
    try:
        try:
            table = _by_arrow(content, len(names), numeric)
        except pa.ArrowInvalid:  # further down a number is none
            numeric = set()
            table = _by_arrow(content, len(names), numeric)
    except pa.ArrowInvalid:
        return None
    if _longest(table) > csv.field_size_limit():
        return None
    rows_read, columns = table.num_rows, table.columns
    del table  # so that a column goes when its numbers are taken out of it
    found = {}
    for column, name in enumerate(names):
        values = columns.pop(0)
        if column in numeric:
            found[name] = Cells(partial(_written, content, len(names), column), _numbers(values))
        else:
            found[name] = Cells(partial(_itself, values))
    return found, rows_read


def _by_arrow(content: bytes, columns: int, numeric: Collection[int] = (), only: int | None = None) -> Any:
    """The table that Arrow reads, or ``only`` one of its columns; those that are not ``numeric`` are texts."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    quoted = b'"' in content
    names = [str(column) for column in range(columns)]
    types = {name: pa.float64() if column in numeric else pa.string() for column, name in enumerate(names)}
    return arrow.read_csv(
        pa.BufferReader(content.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")),
        arrow.ReadOptions(use_threads=False, column_names=names, skip_rows_after_names=1),
        arrow.ParseOptions(quote_char='"' if quoted else False, newlines_in_values=quoted),
        arrow.ConvertOptions(
            column_types=types,
            null_values=_MISSING_AS_WRITTEN,
            strings_can_be_null=True,
            include_columns=None if only is None else [names[only]],
        ),
    )


def _written(content: bytes, columns: int, column: int) -> Texts:
    """The cells of a column of numbers as they are written."""
    return _by_arrow(content, columns, only=column).column(0)


_MISSING_AS_WRITTEN = sorted(
    {"".join(letters) for text in MISSING for letters in product(*zip(text, text.upper(), strict=True))}
)


def _plainly_quoted(content: bytes) -> bool:
    """Whether every quote begins a cell, ends one, or is one of two inside it: others are read in different ways."""
    if b'"' not in content:
        return True
    letters = np.frombuffer(content.removeprefix(codecs.BOM_UTF8), dtype=np.uint8)
    pieces = range(0, len(letters), PIECE)  # which stay in the cache
    quotes = np.concatenate([start + np.flatnonzero(letters[start : start + PIECE] == ord('"')) for start in pieces])
    if len(quotes) % 2:
        return False
    opening, closing, last = quotes[::2], quotes[1::2], len(letters) - 1
    around = np.zeros(256, dtype=bool)
    around[list(b",\r\n")] = True
    begins = (opening == 0) | around[letters[opening - 1]]
    ends = (closing == last) | around[letters[np.minimum(closing + 1, last)]]
    doubled = opening[1:] == closing[:-1] + 1
    begins[1:] |= doubled
    ends[:-1] |= doubled
    return bool(begins.all() and ends.all())


def _look_numeric(cells: Iterable[str | None]) -> bool:
    """Whether these cells hold numbers, where they are not missing."""
    texts = (_plain_text(cell) for cell in cells)
    return all(not text or number(text) is not None for text in texts)


def _numbers(values: Any) -> NDArray[np.float64] | None:
    """The numbers that Arrow has read, NaN where a value is missing; None if it took a text for NaN."""
    numbers: NDArray[np.float64] = values.to_numpy()
    return numbers if np.isnan(numbers).sum() == values.null_count else None


def _finite(text: str) -> float:
    """The number that a text writes, or infinity."""
    value = number(text)
    return math.inf if value is None or math.isnan(value) else value


def _longest(table: Any) -> int:
    """The bytes of the longest text in a table, if any is longer than Python's reader allows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chunks = (chunk for column in table.columns if column.type == pa.string() for chunk in column.chunks)
    large = (chunk for chunk in chunks if chunk.nbytes > csv.field_size_limit())
    return max((pc.max(pc.binary_length(chunk)).as_py() or 0 for chunk in large), default=0)


def _read_carefully(path: Path, content: bytes) -> tuple[dict[str, Cells], int]:
    """The columns as Python's reader reads them, or an error that says what is wrong with the file, and where."""
    need(BYTES_OF_OBJECT * _cells(content), f"reading {path}", "take some of its rows")
    records = list(_records(path, content))
    if not records:
        raise DataError(f"{path} is empty; its first line must name the columns")
    (_, header), *rows = records
    names = _names(path, header)
    for line, record in rows:
        if len(record) != len(names):
            raise DataError(f"{path}, line {line} has {len(record)} values, but there are {len(names)} columns")
    columns = zip(*(record for _, record in rows), strict=True) if rows else [()] * len(names)
    return {name: _as_cells(texts) for name, texts in zip(names, columns, strict=True)}, len(rows)


def _as_cells(texts: Sequence[str]) -> Cells:
    import pyarrow as pa

    return Cells(partial(_itself, pa.chunked_array([texts], pa.large_string())))


def _itself(texts: Texts) -> Texts:
    return texts


def _records(path: Path, content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Each record of the file that is not empty, with the line at which it ends."""
    stream = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    reader = csv.reader(stream, strict=True, skipinitialspace=True)
    try:
        yield from ((reader.line_num, record) for record in reader if record)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: this is not CSV, {error}") from error
    except UnicodeDecodeError:
        raise _not_utf8(path, content) from None


def _not_utf8(path: Path, content: bytes) -> DataError:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        place = f"byte {content[error.start]:#04x} at position {error.start}"
    return DataError(f"{path} is not UTF-8: {place}; save it as UTF-8")


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


def _plain_text(cell: str | None) -> str:
    text = "" if cell is None else cell.strip()
    return "" if text.lower() in MISSING else text

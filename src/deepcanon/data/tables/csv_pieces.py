"""CSV files in pieces that end with a record, and their records as Python's reader reads them."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from deepcanon.core import DataError

PIECE = 2**21
"""The bytes of a file that are read at a time."""

CACHED = 2**18
"""The bytes of a piece that are searched for quotes at a time, which stay in the cache."""


@dataclass(frozen=True)
class Piece:
    """Consecutive records of a file: their bytes, and where these begin in it.

    Those that are ``plain`` are read alike by Python and Arrow; from others on Python's reader reads all of the file.
    """

    path: Path
    content: bytes
    offset: int
    plain: bool
    quoted: bool
    header: bool = False

    def records(self) -> Iterator[tuple[int, list[str]]]:
        with opened(self.path) as stream:
            before = _lines(stream.read(self.offset)) if self.offset else 0
            content: BinaryIO = io.BytesIO(self.content) if self.plain else stream  # else to the end of the file
            yield from ((before + line, record) for line, record in records_of(self.path, content, self.offset))


def pieces_of(path: Path) -> Iterator[Piece]:
    """The pieces of a file; the last one, where Python's reader would read quotes in another way, is all the rest."""
    with opened(path) as stream:
        offset, rest = 0, b""
        while block := stream.read(PIECE):
            quoted = b'"' in block  # looked for once: a file is searched as fast as it is read
            before = rest.count(b'"')
            end = _end_of_records(block, quoted, inside=before % 2 == 1)
            if end:
                content = b"".join((rest, memoryview(block)[:end]))
                plain = _plain(content, quoted or before > 0)
                yield Piece(path, content, offset, plain, quoted or before > 0)
                if not plain:
                    return
                offset, rest = offset + len(content), block[end:]
            else:
                rest += block
        if rest:
            quoted = b'"' in rest
            yield Piece(path, rest, offset, _plain(rest, quoted), quoted)


def _plain(content: bytes, quoted: bool) -> bool:
    return b"\0" not in content and (not quoted or _plainly_quoted(content))


def _lines(content: bytes) -> int:
    """The lines that end in these bytes, which end with one."""
    return content.count(b"\n") + content.count(b"\r") - content.count(b"\r\n")


def _end_of_records(content: bytes, quoted: bool, inside: bool = False) -> int:
    """Where the last record ends that is complete in these bytes: at a line outside of quotes.

    They begin outside of them, too, unless they begin ``inside``.
    """
    quotes = _places_of_quotes(content) if quoted else np.zeros(0, dtype=np.int64)
    end = len(content)
    while (line := _last_line(content, end)) >= 0:
        before = int(np.searchsorted(quotes, line))
        if (before + inside) % 2 == 0:
            return line + 1
        end = int(quotes[before - 1]) if before else 0
    return 0


def _last_line(content: bytes, end: int) -> int:
    """Where the last line before this place ends; a return at the very end may go on with a line feed."""
    feed = content.rfind(b"\n", 0, end)
    return max(feed, content.rfind(b"\r", feed + 1, min(end, len(content) - 1)))


def _places_of_quotes(content: bytes) -> NDArray[np.int64]:
    letters = np.frombuffer(content, dtype=np.uint8)
    pieces = range(0, len(letters), CACHED)
    return np.concatenate([start + np.flatnonzero(letters[start : start + CACHED] == ord('"')) for start in pieces])


def _plainly_quoted(content: bytes) -> bool:
    """Whether every quote begins a cell, ends one, or is one of two inside it: others are read in different ways."""
    content = content.removeprefix(codecs.BOM_UTF8)
    letters, quotes = np.frombuffer(content, dtype=np.uint8), _places_of_quotes(content)
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


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        raise DataError(f"there is no file {path}") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    with stream:
        yield stream


def records_of(path: Path, content: BinaryIO, offset: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Each record that is not empty, with the line at which it ends; the content begins at this byte of the file."""
    stream = io.TextIOWrapper(content, encoding="utf-8-sig" if offset == 0 else "utf-8", newline="")
    reader = csv.reader(stream, strict=True, skipinitialspace=True)
    try:
        yield from ((reader.line_num, record) for record in reader if record)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: this is not CSV, {error}") from error
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    finally:
        stream.detach()


def _not_utf8(path: Path) -> DataError:
    """The error that names the first byte that is not UTF-8."""
    decoder, before, ended = codecs.getincrementaldecoder("utf-8")(), 0, False
    with path.open("rb") as stream:
        while not ended:
            block = stream.read(PIECE)
            begun, ended = before - len(decoder.getstate()[0]), not block
            try:
                decoder.decode(block, final=ended)
            except UnicodeDecodeError as error:
                place, byte = begun + error.start, error.object[error.start]
                break
            before += len(block)
    return DataError(f"{path} is not UTF-8: byte {byte:#04x} at position {place}; save it as UTF-8")

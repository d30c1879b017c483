"""Columns of logs: their numbers in files that are memory-mapped, so that 100,000 points are read at once.

A log is read by a process of its own (``python -m deepcanon.studio.columns``, see ``reader.py``), which only ever
appends: what was read stays, and of a log that grows only the new bytes are parsed. Where a log was cut, as ``resume``
does, a new folder of columns takes the place of the old one. Every 16 records are a block, and every 64, of which the
smallest and largest value, sum and count are kept: a curve that is wider than a screen is drawn from blocks, and no
spike is lost.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from deepcanon.core.files import write_whole

BLOCKS = (16, 64)
"""The records of a block, of either size: what is drawn is read from the largest that is not too coarse for it."""
PIECE = 2**18
"""The bytes of a log that are parsed at a time."""
MOST_LINE = 2**20
"""The bytes of a line beyond which a file is not taken for a log."""
TAIL = 64
"""The bytes before the end of what was read by which a log that was cut and has grown again is known."""
PLACES = ("step", "seconds")
"""The columns that a curve can be drawn against, in double precision; all others are in single precision."""
KINDS = ("step", "epoch")
NUMBERS = (float, int)
"""The types of numbers in JSON; a bool is none."""
DAYS = 30
"""How long columns that nobody has read stay."""
SAME = "nothing new"
"""What the process that reads logs says of one that its columns have whole."""
MOST_HEADS = 1000
"""Of how many logs is remembered where their columns are, and which."""

Floats = npt.NDArray[np.floating[Any]]


@dataclass
class Kind:
    """The columns of one kind of records: the number of rows, their names in order, and where they begin and end."""

    rows: int = 0
    names: list[str] = field(default_factory=list)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: int, names: list[str], ranges: dict[str, tuple[float, float]]) -> Kind:
        """One with lists of its own, since rows are added to it."""
        return cls(rows, list(names), dict(ranges))


@dataclass
class Columns:
    """The columns of a log up to ``offset``, in the folder ``generation`` of ``cache``."""

    cache: Path
    generation: str
    offset: int = 0
    tail: str = ""
    kinds: dict[str, Kind] = field(default_factory=dict)

    @classmethod
    def open(cls, cache: Path) -> Columns | None:
        """The columns that are in a folder; none if nothing was read yet."""
        head = f"{cache}/head.json"
        try:
            status = os.stat(head)
            saved = _head(head, status.st_mtime_ns, status.st_ino)
            if saved["blocks"] != list(BLOCKS):
                return None
            kinds = {name: Kind.of(**kind) for name, kind in saved["kinds"].items()}
            return cls(cache, saved["generation"], saved["offset"], saved["tail"], kinds)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def has(self, kind: str, name: str) -> bool:
        """Whether there is such a column."""
        return kind in self.kinds and name in self.kinds[kind].names

    def values(self, kind: str, name: str) -> Floats:
        """A column, memory-mapped."""
        return _mapped(self._path(kind, name), _type(name), self.kinds[kind].rows)

    def blocks(self, kind: str, name: str, size: int) -> Floats:
        """Of each block the smallest and the largest value, the sum and the count; of places the first."""
        count, width = -(-self.kinds[kind].rows // size), 1 if name in PLACES else 4
        type_ = _type(name)
        with open(self._path(kind, name, f"blocks{size}"), "rb", buffering=0) as file:  # quicker than to map so little
            return np.frombuffer(file.read(count * width * np.dtype(type_).itemsize), type_).reshape(count, width)

    def append(self, kind: str, found: Mapping[str, Floats]) -> None:
        """Add rows; a column that these lack, or that is new, has gaps."""
        head = self.kinds.setdefault(kind, Kind(names=list(PLACES)))
        added, before = len(found["step"]), head.rows
        head.names += [name for name in found if name not in head.names]
        for name in head.names:
            file = self._file(kind, name)
            if not file.exists():
                _write(file, 0, np.full(before, np.nan, _type(name)))
                _write_blocks(file, name, 0, before)
            new = found.get(name)
            _write(file, before, np.full(added, np.nan, _type(name)) if new is None else new.astype(_type(name)))
            _write_blocks(file, name, before, before + added)
        head.rows += added
        for place in PLACES if added else ():
            first = head.ranges.get(place, (float(found[place][0]), 0.0))[0]
            head.ranges[place] = (first, float(found[place][-1]))

    def save(self) -> None:
        """Say how far the columns reach; what stands behind that in the files is written over the next time."""
        kinds = {name: {"rows": k.rows, "names": k.names, "ranges": k.ranges} for name, k in self.kinds.items()}
        head = {
            "generation": self.generation,
            "offset": self.offset,
            "tail": self.tail,
            "blocks": BLOCKS,
            "kinds": kinds,
        }
        write_whole(self.cache / "head.json", json.dumps(head))

    def _file(self, kind: str, name: str) -> Path:
        return Path(self._path(kind, name))

    def _path(self, kind: str, name: str, what: str = "values") -> str:
        return f"{self.cache}/{self.generation}/{kind}-{self.kinds[kind].names.index(name)}.{what}"


@lru_cache(MOST_HEADS)
def _head(path: str, changed: int, inode: int) -> Any:
    """The head of columns, parsed once as long as it stays: a page asks for hundreds of curves at once."""
    with open(path, "rb") as file:
        return json.loads(file.read())


@lru_cache(MOST_HEADS)
def cache_of(folder: Path, caches: Path) -> Path:
    """Where the columns of a run are kept."""
    return caches / hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]


def default_caches() -> Path:
    """Where columns are kept: they can be thrown away at any time."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "deepcanon" / "studio"


def update(log: Path, cache: Path) -> Columns:
    """Read what a log has more than its columns, or all of it if it is another log."""
    columns = Columns.open(cache)
    with log.open("rb") as file:
        if columns is None or not _continues(file, columns):
            shutil.rmtree(cache, ignore_errors=True)
            columns = Columns(cache, secrets.token_hex(4))
            (cache / columns.generation).mkdir(parents=True)
        file.seek(columns.offset)
        rest = b""
        while piece := file.read(PIECE):
            lines, _, rest = (rest + piece).rpartition(b"\n")
            if len(rest) > MOST_LINE:  # whatever this is, it has no records
                break
            if lines:
                for kind, found in parse(lines).items():
                    columns.append(kind, found)
                columns.offset += len(lines) + 1
        begin = max(0, columns.offset - TAIL)
        file.seek(begin)
        columns.tail = file.read(columns.offset - begin).hex()
    columns.save()
    return columns


def _continues(file: io.BufferedReader, columns: Columns) -> bool:
    begin = max(0, columns.offset - TAIL)
    file.seek(begin)
    return file.read(columns.offset - begin).hex() == columns.tail


def parse(lines: bytes) -> dict[str, dict[str, Floats]]:
    """The columns of whole lines by kind; lines that are damaged are left out."""
    from pydantic_core import from_json  # only the process that reads logs needs it: it takes half the time of json

    try:
        records = from_json(b"[%s]" % lines.replace(b"\n", b","), cache_strings="keys")
        if len(records) != lines.count(b"\n") + 1 or not all(map(_is_record, records)):
            raise ValueError("a line that is not a record")
    except ValueError:  # one damaged line is enough for that
        records = [record for line in lines.split(b"\n") if (record := record_of(line)) is not None]
    return columns_of(records)


def record_of(line: bytes) -> dict[str, Any] | None:
    """The record of a line; None if it has none."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if _is_record(record) else None


def _is_record(found: Any) -> bool:
    return (
        type(found) is dict
        and found.get("kind") in KINDS
        and type(found.get("step")) in NUMBERS
        and type(found.get("seconds")) in NUMBERS
    )


def columns_of(records: list[dict[str, Any]]) -> dict[str, dict[str, Floats]]:
    """The columns of records by kind."""
    found: dict[str, dict[str, Floats]] = {}
    for kind in KINDS:
        rows = [record for record in records if record["kind"] == kind]
        if rows:
            found[kind] = dict(_columns(rows))
    return found


def _columns(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Floats]]:
    """The columns of records of one kind that have a number anywhere; gaps where a record has none."""
    for name in (*PLACES, "loss", "lr", "grad_norm"):
        values = [row.get(name) for row in rows]
        if any(type(value) in NUMBERS for value in values):
            yield name, _floats(values)
    for name in ("terms", "valid"):
        parts = [part if isinstance(part := row.get(name), dict) else {} for row in rows]
        for key in dict.fromkeys(key for part in parts for key in part):
            values = [part.get(key) for part in parts]
            if any(type(value) in NUMBERS for value in values):
                yield f"{name}.{key}", _floats(values)


def _floats(values: list[Any]) -> Floats:
    """Numbers in double precision, NaN where there is none, or one that is beyond it."""
    numbers = [value if type(value) in NUMBERS else np.nan for value in values]
    try:
        return np.array(numbers, np.float64)
    except OverflowError:
        return np.array([value if abs(value) < 2**1023 else np.nan for value in numbers], np.float64)


def _mapped(file: str, kind: type[np.floating[Any]], count: int) -> Floats:
    """So many numbers of a file, memory-mapped."""
    if not count:
        return np.empty(0, kind)
    opened = os.open(file, os.O_RDONLY)
    try:
        return np.frombuffer(mmap.mmap(opened, count * np.dtype(kind).itemsize, access=mmap.ACCESS_READ), kind)
    finally:
        os.close(opened)


def _type(name: str) -> type[np.floating[Any]]:
    return np.float64 if name in PLACES else np.float32


def _write(file: Path, row: int, values: Floats) -> None:
    """Write values from a row on, over whatever a process that was killed has left there."""
    file.touch()
    with file.open("r+b") as stream:
        stream.seek(row * values.itemsize * (values.shape[1] if values.ndim > 1 else 1))
        stream.write(np.ascontiguousarray(values).tobytes())


def _write_blocks(file: Path, name: str, before: int, after: int) -> None:
    """Write the blocks that have changed between two numbers of rows; the last of them may be full later."""
    kind = _type(name)
    for size in BLOCKS:
        first, last = before // size, -(-after // size)
        values = np.full((last - first) * size, np.nan, kind)
        there = after - first * size
        values[:there] = np.fromfile(file, kind, there, offset=first * size * np.dtype(kind).itemsize)
        rows = values.reshape(-1, size)
        content = rows[:, :1] if name in PLACES else summary(rows).astype(kind)
        _write(file.with_suffix(f".blocks{size}"), first, content)


def summary(rows: Floats) -> Floats:
    """Of each row its smallest and largest value, its sum and how many there are, gaps left out."""
    there = ~np.isnan(rows)
    low, high = np.fmin.reduce(rows, axis=1), np.fmax.reduce(rows, axis=1)
    return np.stack([low, high, np.where(there, rows, 0).sum(1), there.sum(1)], axis=1)


def throw_away(caches: Path) -> None:
    """Remove the columns that nobody has read for long."""
    for head in caches.glob("*/head.json"):
        if time.time() - head.stat().st_mtime > DAYS * 86400:
            shutil.rmtree(head.parent, ignore_errors=True)


def work(orders: TextIO, answers: TextIO) -> None:
    """Read one log after the other, as asked for by lines of JSON, and say of each when it is done."""
    for order in orders:
        asked = json.loads(order)
        try:
            before = Columns.open(Path(asked["cache"]))
            after = update(Path(asked["log"]), Path(asked["cache"]))
            said = SAME if before == after else "read"
        except Exception as error:  # a folder that was removed, a full disk: the page shows a sketch then
            said = f"{type(error).__name__}: {error}".replace("\n", " ")
        answers.write(f"{said}\n")
        answers.flush()


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(5)  # whatever trains is more urgent
    throw_away(Path(sys.argv[1]))
    with suppress(BrokenPipeError, KeyboardInterrupt):  # the studio has ended
        work(sys.stdin, sys.stdout)

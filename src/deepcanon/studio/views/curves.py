"""Curves of many runs, as the smallest, mean and largest value in each of as many buckets as the page has pixels.

A log that was read already is taken from its columns; of any other a sketch is made of lines at even places, within
milliseconds. Buckets of steps are whole steps wide, so that a curve with fewer points than pixels is exact.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from deepcanon.core.errors import UsageError
from deepcanon.studio.columns import BLOCKS, MOST_LINE, PLACES, Columns, Floats, cache_of, columns_of, record_of

SMALL = 2**16
"""A log of so many bytes is read as a whole rather than sketched."""
MOST_RUNS = 500
MOST_WIDTH = 4000
LINES_OF_ALL = 20_000
"""How many lines of all logs together are read for a sketch."""


def curves(
    folders: Mapping[str, Path],
    caches: Path,
    name: str,
    *,
    against: str = "step",
    low: float | None = None,
    high: float | None = None,
    width: int = 600,
    groups: list[list[str]] | None = None,
) -> bytes:
    """The curve ``name`` of these runs: a length, a head in JSON, and float32 of [curve][min, mean, max][bucket].

    With ``groups`` there is one curve for each of them: its band is that of all its runs, its line their mean.
    """
    if against not in PLACES:
        raise UsageError(f"a curve is drawn against step or seconds, not {against!r:.40}")
    if not 1 <= width <= MOST_WIDTH or len(folders) > MOST_RUNS:
        raise UsageError(f"at most {MOST_RUNS} curves of at most {MOST_WIDTH} points are drawn at once")
    kind = "epoch" if name.startswith("valid.") else "step"
    lines = max(40, LINES_OF_ALL // max(1, len(folders)))
    sources = {id: Source.of(folder, caches, kind, name, against, lines) for id, folder in folders.items()}
    drawn = {id: source for id, source in sources.items() if source is not None}
    begins = [source.begin for source in drawn.values()]
    ends = [source.end for source in drawn.values()]
    first = min(begins, default=0.0) if low is None else low
    last = max(ends, default=1.0) if high is None else high
    edges, size = bucket_edges(first, last, width, whole=against == "step")
    found = {id: source.reduced(edges) for id, source in drawn.items()}
    if groups is not None:
        listed = [[id for id in group if id in found] for group in groups]
        content = [_together([found[id] for id in group], len(edges) - 1) for group in listed]
        head: dict[str, Any] = {"groups": listed}
    else:
        content = list(found.values())
        head = {"runs": list(found)}
    middle = (size - 1) / 2 if against == "step" else size / 2
    head |= {
        "name": name,
        "against": against,
        "start": edges[0] + middle,
        "size": size,
        "width": len(edges) - 1,
        "range": [min(begins, default=None), max(ends, default=None)],
        "sketched": [id for id, source in drawn.items() if source.sketched],
    }
    packed = json.dumps(head).encode()
    packed += b" " * (-len(packed) % 4)  # numbers begin at a multiple of their size
    numbers = np.stack(content).astype("<f4").tobytes() if content else b""
    return struct.pack("<I", len(packed)) + packed + numbers


def bucket_edges(low: float, high: float, width: int, *, whole: bool) -> tuple[Floats, float]:
    """The edges of at most ``width`` buckets from ``low`` to ``high``, and their size, a whole number of steps.

    >>> bucket_edges(1, 10, 4, whole=True)
    (array([ 1.,  4.,  7., 10., 13.]), 3.0)
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        raise UsageError("a curve is drawn between two finite places")
    if whole:
        low, high = math.floor(low), max(math.ceil(high), math.floor(low))
        size = float(max(1, -(-(high - low + 1) // width)))
        count = int(-(-(high - low + 1) // size))
    else:
        size, count = (max(high - low, 1e-9)) * (1 + 1e-9) / width, width
    return low + size * np.arange(count + 1), size


class Source:
    """A curve of one run before it is reduced: from columns, or sketched."""

    def __init__(
        self,
        points: Callable[[], tuple[Floats, Floats]],
        ends: tuple[float, float],
        rows: int,
        blocks: tuple[str, str, Callable[[str, int], Floats]] | None,
        sketched: bool,
    ) -> None:
        self.points, self.rows, self.blocks, self.sketched = points, rows, blocks, sketched
        self.begin, self.end = float(ends[0]), float(ends[1])

    @classmethod
    def of(cls, folder: Path, caches: Path, kind: str, name: str, against: str, lines: int) -> Source | None:
        """The curve of a run; none if it has no such."""
        log = f"{folder}/log.jsonl"
        columns = Columns.open(cache_of(folder, caches))
        try:
            status = os.stat(log)
            if columns is not None and columns.offset <= status.st_size and columns.has(kind, name):
                rows, range_ = columns.kinds[kind].rows, columns.kinds[kind].ranges
                part, block = partial(columns.values, kind), partial(columns.blocks, kind)
                if not rows:
                    return None
                return cls(lambda: (part(against), part(name)), range_[against], rows, (against, name, block), False)
            columns_by_kind, whole = _sketched(Path(log), status.st_size, status.st_mtime_ns, lines)
        except OSError:
            return None
        found = columns_by_kind.get(kind, {})
        if name not in found or np.isnan(found[name]).all():
            return None
        places, values = found[against], found[name]
        return cls(lambda: (places, values), (places[0], places[-1]), len(places), None, not whole)

    def reduced(self, edges: Floats) -> Floats:
        """The smallest, mean and largest value in each bucket, NaN where there is none."""
        fewest, within = 2 * (len(edges) - 1), self.rows
        for size in reversed(BLOCKS):
            if self.blocks is None or within // size < fewest:
                continue
            against, name, block = self.blocks
            starts = block(against, size)[:, 0]
            first, last = np.searchsorted(starts, edges[[0, -1]])
            if last - first >= fewest:
                return _buckets(np.searchsorted(starts, edges), *block(name, size).T)
            within = int(last - first + 1) * size  # at most: smaller blocks may be too few as well
        places, values = self.points()
        low, high = np.searchsorted(places, edges[[0, -1]])
        values = values[low:high].astype(np.float64)
        there = ~np.isnan(values)
        at = np.searchsorted(places[low:high], edges)
        return _buckets(at, values, values, np.where(there, values, 0.0), there.astype(np.float64))


def _buckets(at: Any, low: Floats, high: Floats, total: Floats, count: Floats) -> Floats:
    """Minimum, mean and maximum between each two of the numbers ``at``."""
    at = np.maximum.accumulate(at)  # in a damaged log steps may go back
    inside = at[:-1] < at[1:]
    result = np.full((3, len(inside)), np.nan, dtype=np.float32)
    if not inside.any():
        return result
    first, end = at[:-1][inside], at[-1]
    counts = np.add.reduceat(count[:end].astype(np.float64), first)
    sums = np.add.reduceat(total[:end].astype(np.float64), first)
    result[0, inside] = np.fmin.reduceat(low[:end], first)
    result[1, inside] = np.divide(sums, counts, out=np.full(len(first), np.nan), where=counts > 0)
    result[2, inside] = np.fmax.reduceat(high[:end], first)
    return result


def _together(curves: list[Floats], width: int) -> Floats:
    """The curve of a group of runs: the smallest, the mean and the largest of all in each bucket."""
    if not curves:
        return np.full((3, width), np.nan)
    low, mean, high = (np.stack(each) for each in zip(*curves, strict=True))
    there = (~np.isnan(mean)).sum(0)
    total = np.where(np.isnan(mean), 0, mean).sum(0)
    middle = np.divide(total, there, out=np.full(width, np.nan), where=there > 0)
    return np.stack([np.fmin.reduce(low), middle, np.fmax.reduce(high)])


@lru_cache(MOST_RUNS)
def _sketched(log: Path, size: int, changed: int, lines: int) -> tuple[dict[str, dict[str, Floats]], bool]:
    """The columns of a sketch, remembered as long as the log stays as it is: a page asks again while logs are read."""
    records, whole = sketch(log, lines)
    return columns_of(records), whole


def sketch(log: Path, lines: int) -> tuple[list[dict[str, Any]], bool]:
    """Records at even places of a log, the first and the last among them, and whether these are all."""
    size = log.stat().st_size
    with log.open("rb") as file:
        if size <= SMALL:
            found = [record_of(line) for line in file.read().split(b"\n")[:-1]]
            return [record for record in found if record is not None], True
        kept: dict[int, dict[str, Any]] = {}
        place = 0
        for number in range(lines):
            if number * size // lines < place:  # in the line before the last one: it would be read again
                continue
            file.seek(number * size // lines)
            if number and not file.readline(MOST_LINE).endswith(b"\n"):  # the rest of a line
                break  # whatever this is, it has no records
            place, line = file.tell(), file.readline(MOST_LINE)
            if line.endswith(b"\n") and (record := record_of(line)) is not None:
                kept[place] = record
        file.seek(-min(size, SMALL // 8), os.SEEK_END)
        rest = file.read().split(b"\n")[1:-1]
    last = next((record for line in reversed(rest) if (record := record_of(line)) is not None), None)
    ordered = [kept[place] for place in sorted(kept)]
    if last is not None and (not ordered or last["step"] > ordered[-1]["step"]):
        ordered.append(last)
    return ordered, False

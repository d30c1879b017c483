"""Lines of a log with a running checksum: a damaged line is named, and the others are still read.

A line is a record of JSON with one more entry at its end, ``"check"``: the CRC-32 of the record, and the CRC-32 of all
records up to this one, eight hexadecimal digits each. The first finds a line that was altered, the second lines that
were lost, moved or put in. A record costs two CRCs, a microsecond. Logs without checksums, of older versions, are read
as they are.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from deepcanon.core import CheckpointError
from deepcanon.core.stored import held_to, parse_json

_CHECKED = re.compile(rb'(?P<record>\{.*), "check": "(?P<own>[0-9a-f]{8})(?P<running>[0-9a-f]{8})"\}', re.DOTALL)
MOST_NAMED = 5
"""Damaged lines beyond these are counted and not named."""


class Record(TypedDict):
    """A record of the log: means of the terms over a few steps, the validation after an epoch, or a frame of a film."""

    kind: Literal["step", "epoch", "picture"]
    step: int
    epoch: int
    seconds: float
    terms: NotRequired[dict[str, float | None]]
    loss: NotRequired[float | None]
    lr: NotRequired[float | None]
    grad_norm: NotRequired[float | None]
    valid: NotRequired[dict[str, float | None]]
    name: NotRequired[str]
    """Of a picture: ``pictures/film/NAME-STEP.png`` is its file."""


def log_lines(records: Iterable[Mapping[str, Any]], running: int) -> tuple[bytes, int]:
    """The records as lines, and the running checksum after them; ``running`` is the one before.

    >>> log_lines([{"step": 1}], 0)[0]
    b'{"step": 1, "check": "3a87913d3a87913d"}\\n'
    """
    lines = []
    for record in records:
        content = json.dumps(record).encode()
        running = zlib.crc32(content, running)
        lines.append(b'%s, "check": "%08x%08x"}\n' % (content[:-1], zlib.crc32(content), running))
    return b"".join(lines), running


def running_checksum(end: bytes) -> int:
    """The running checksum after the last whole line of (the end of) a log; 0 where that has none."""
    found = _CHECKED.fullmatch(end.rpartition(b"\n")[0].rpartition(b"\n")[2])
    return int(found["running"], 16) if found else 0


def read_lines(raw: bytes, path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The records of a log, and what is wrong with it, a sentence each; a last line that was cut is left out."""
    records: list[dict[str, Any]] = []
    damaged: list[int] = []
    out_of_order: list[int] = []
    running, checked = 0, False
    for number, line in enumerate(raw.split(b"\n")[:-1], start=1):
        found = _CHECKED.fullmatch(line)
        record = found["record"] + b"}" if found else line
        whole = zlib.crc32(record) == int(found["own"], 16) if found else not checked
        follows = not found or zlib.crc32(record, running) == int(found["running"], 16)
        after_damage = bool(damaged) and damaged[-1] == number - 1  # whose checksum may be gone, too
        try:
            read = held_to(Record, parse_json(record, path), path) if whole else None
        except CheckpointError:
            read = None
        if read is None:
            damaged.append(number)
        else:
            records.append(read)
            if not follows and not after_damage:
                out_of_order.append(number)
        if found:
            running, checked = int(found["running"], 16), True
    complaints = []
    if damaged:
        complaints.append(f"{path} is damaged: {_named(damaged)} cannot be trusted, only the others are read")
    if out_of_order:
        complaints.append(f"{path} is damaged: before {_named(out_of_order)}, lines were lost, moved or put in")
    return records, complaints


def _named(numbers: list[int]) -> str:
    """The numbers of lines in words.

    >>> _named([3, 9])
    'lines 3, 9'
    """
    shown = ", ".join(map(str, numbers[:MOST_NAMED]))
    more = f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"

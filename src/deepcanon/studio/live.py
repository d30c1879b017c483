"""Changes in a folder of runs while somebody watches: looked for only then, and by asking for sizes and times."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepcanon.core.files import as_json
from deepcanon.studio.reader import Reader
from deepcanon.studio.views.runs import NOTES, held, row

if TYPE_CHECKING:
    from deepcanon.studio.studio import Studio

POLL = 0.3
"""Seconds after which the sizes and times of files are asked for again."""
SEARCH = 2.0
"""Seconds between two searches for new runs."""

Signature = tuple[Any, ...]


class Live:
    """The rows of all runs, each with the number of the change that it came with."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.version = 0
        self.reader = Reader(studio.caches, self._was_read)
        self._rows: dict[str, dict[str, Any]] = {}
        self._versions: dict[str, int] = {}
        self._signatures: dict[str, Signature] = {}
        self._gone: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._looked = self._searched = 0.0
        self._lock = threading.Lock()

    def rows(self) -> tuple[int, list[dict[str, Any]]]:
        """All runs now, and the number of the last change."""
        with self._lock:
            self._look(search=True)
            return self.version, list(self._rows.values())

    def since(self, version: int) -> tuple[int, dict[str, Any]]:
        """Runs that have changed or gone and logs that were read since a number, and the number of the last change."""
        with self._lock:
            if time.monotonic() - self._looked >= POLL * 0.8:
                self._look(search=time.monotonic() - self._searched > SEARCH)
            changed = [self._rows[id] for id, number in self._versions.items() if number > version]
            gone, read = ([id for id, n in those.items() if n > version] for those in (self._gone, self._read))
            return self.version, {"changed": changed, "gone": gone, "read": read}

    def close(self) -> None:
        """End what runs next to the server."""
        self.reader.close()

    def _look(self, *, search: bool) -> None:
        self._looked = time.monotonic()
        locks = held()
        if search:
            self._searched = self._looked
            runs = self.studio.runs()
            for id in [id for id in self._rows if id not in runs]:
                self.version += 1
                del self._rows[id], self._versions[id], self._signatures[id]
                self._gone[id] = self.version
        for id, folder in self.studio.known().items():
            signature = _signature(folder, locks)
            before = self._signatures.get(id)
            if signature == before:
                continue
            self._signatures[id] = signature
            if before is None or before[0] != signature[0]:
                self.reader.want(id, folder, urgent=before is not None)
            self._rows[id] = {"id": id, **as_json(row(folder, self.studio.root, locks))}
            self._gone.pop(id, None)
            self.version += 1
            self._versions[id] = self.version

    def _was_read(self, id: str) -> None:
        with self._lock:
            self.version += 1
            self._read[id] = self.version


def _signature(folder: Path, locks: dict[tuple[int, int], int]) -> Signature:
    """What differs when a run has changed: size and time of its log, of run.json and of its notes, and its lock."""
    lock = _stamp(folder / ".lock")
    return _stamp(folder / "log.jsonl"), _stamp(folder / "run.json"), _stamp(folder / NOTES), locks.get(lock[2:])


def _stamp(path: Path) -> tuple[int, int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0, 0)
    return found.st_size, found.st_mtime_ns, found.st_dev, found.st_ino

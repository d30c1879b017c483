"""The state of one studio: its folder, its token, the runs that it has listed, and pages that wait to be shown once."""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from deepcanon.runs.folder_parts import BEGINNING, PARTS
from deepcanon.studio.columns import default_caches
from deepcanon.studio.jobs import Jobs
from deepcanon.studio.live import Live
from deepcanon.studio.plain import is_plain
from deepcanon.studio.unknown import UnknownId

TICKET_SECONDS = 30.0
"""How long a page waits to be shown."""
MOST_TICKETS = 16
READ = ("run.json", "log.jsonl", "notes.json", ".lock")
"""The files of a run that are read to list it."""
COMPUTING = threading.Lock()
"""Held by whoever computes with torch, one at a time: all studios of a process look into the same open models."""


class Studio:
    """A folder of runs with all that the server remembers of it; the folder itself is the store.

    ``files`` are data of the user's that the page may train on, by name: no path ever comes from the page.
    """

    def __init__(
        self,
        root: Path,
        *,
        files: dict[str, Path] | None = None,
        read_only: bool = False,
        caches: Path | None = None,
        jobs: int = 1,
    ) -> None:
        self.root = root.resolve()
        self.caches = default_caches() if caches is None else caches
        self.files = files or {}
        self.read_only = read_only
        self.token = secrets.token_urlsafe(32)
        self.epoch = secrets.token_hex(4)
        self.computing = COMPUTING
        self.ending = False
        """Whether the studio closes: what is streamed to pages ends then."""
        self.at_end: list[Callable[[], None]] = []
        """What is called when the studio closes: a view ends the processes that it has started."""
        self.live = Live(self)
        self.jobs = Jobs(self, jobs)
        self._runs: dict[str, Path] = {}
        self._tickets: dict[str, tuple[float, bytes]] = {}

    def runs(self) -> dict[str, Path]:
        """The folder of every run by its id, listed anew."""
        self._runs = {id_of(folder, self.root): folder for folder in run_folders(self.root)}
        return self._runs

    def known(self) -> dict[str, Path]:
        """The folder of every run by its id, as listed the last time."""
        return self._runs

    def run(self, id: str) -> Path:
        """The folder of a run: the only way from what the page says to a path."""
        if id not in self._runs:
            self.runs()
        try:
            return self._runs[id]
        except KeyError:
            raise UnknownId(f"there is no run {id[:40]!r} here") from None

    def close(self) -> None:
        """End what runs next to the server, and what it streams."""
        self.ending = True
        self.live.close()
        for end in self.at_end:
            end()

    def ticket(self, page: str | bytes) -> str:
        """The address at which a self-contained page with scripts of its own is shown once, in a frame."""
        now = time.monotonic()
        fresh = [(name, held) for name, held in self._tickets.items() if held[0] > now]
        self._tickets = dict(fresh[-MOST_TICKETS + 1 :])
        name = secrets.token_urlsafe(32)
        self._tickets[name] = (now + TICKET_SECONDS, page.encode() if isinstance(page, str) else page)
        return f"/ticket/{name}"

    def redeem(self, name: str) -> bytes:
        """The page of a ticket, which is worth nothing afterwards."""
        until, page = self._tickets.pop(name, (0.0, b""))
        if until < time.monotonic():
            raise UnknownId("this page was shown already, or has waited too long: open it again")
        return page


def id_of(folder: Path, root: Path) -> str:
    """The id of a run: 16 hexadecimal digits of the SHA-256 of its path below the root.

    >>> id_of(Path("runs/vae"), Path("runs"))
    'e089e84942af6414'
    """
    return hashlib.sha256(os.fsencode(folder.relative_to(root).as_posix())).hexdigest()[:16]


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def run_folders(root: Path) -> Iterator[Path]:
    """The folders that hold a run, or begin to; links are not followed, since they may leave the root.

    Where a link, a pipe or a device stands in place of a file there is no run; nor where a name is not UTF-8, which no
    page could show.
    """
    for place, folders, files in os.walk(root):
        if "run.json" in files or BEGINNING in files:
            read = [os.path.join(place, name) for name in files if name in READ]
            if all(map(is_plain, read)) and _is_text(place):
                yield Path(place)
            folders[:] = [name for name in folders if name not in PARTS]
        folders[:] = [name for name in folders if not name.startswith(".")]

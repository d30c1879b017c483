"""The reader of logs: a thread that hands one log after the other to a process of its own and says when it is done."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deepcanon.studio import columns

IDLE = 30.0
"""Seconds without a log to read after which the process is ended; the next log starts it again."""


class Reader:
    """Reads logs into columns; ``done`` is called with the id of each whose columns are not what they were before."""

    def __init__(self, caches: Path, done: Callable[[str], None]) -> None:
        self.caches = caches
        self.done = done
        self._wanted: OrderedDict[str, Path] = OrderedDict()
        self._news = threading.Condition()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def want(self, id: str, folder: Path, *, urgent: bool = False) -> None:
        """Have the log of a run read; an urgent one before all others."""
        with self._news:
            self._wanted[id] = folder
            self._wanted.move_to_end(id, last=not urgent)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="reader of logs")
                self._thread.start()
            self._news.notify()

    def waiting(self) -> int:
        """How many logs are still to be read."""
        return len(self._wanted)

    def close(self) -> None:
        """End the thread and its process."""
        with self._news:
            self._closed = True
            if self._process is not None:
                self._process.kill()
            self._news.notify()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._news:
                while not self._wanted and not self._closed:
                    if not self._news.wait(IDLE):
                        self._end()
                if self._closed:
                    break
                id, folder = self._wanted.popitem(last=False)
            if self._read(folder):
                self.done(id)
        self._end()

    def _end(self) -> None:
        """End the process, if there is one, and close what leads to it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError):  # the rest of an order to a process that has died
                    assert pipe is not None
                    pipe.close()
            self._process = None

    def _read(self, folder: Path) -> bool:
        """Have the process read one log, and start it again if it has died; whether there was something new."""
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            command = [sys.executable, "-m", columns.__name__, str(self.caches)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"log": str(folder / "log.jsonl"), "cache": str(columns.cache_of(folder, self.caches))}
        try:
            self._process.stdin.write(f"{json.dumps(order)}\n")
            self._process.stdin.flush()
            return self._process.stdout.readline().rstrip() != columns.SAME
        except OSError:
            self._end()
            return True

"""Jobs: trainings and comparisons that the page has asked for, each a process of the same command line.

A job is a list of words, never a shell's line. Every word is checked first (``views/training.py``): models are names of
the catalogue or runs that the server has listed, data are names of the catalogue or files that were named when the
studio was started, and each value stands behind its option in one word, ``--name=value``, so that no value can become
an option. A job has its own session: it goes on when the studio ends, and is found again by its folder.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deepcanon.core.errors import UsageError
from deepcanon.studio.unknown import UnknownId

if TYPE_CHECKING:
    from deepcanon.studio.studio import Studio

MOST_WAITING = 100
Status = Literal["waiting", "running", "finished", "failed", "stopped"]
_PREFIX = "deepcanon: "


@dataclass
class Job:
    """One job: its words, the folder that it writes, and how far it has come."""

    what: str
    title: str
    words: list[str]
    folder: str
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    status: Status = "waiting"
    said: str = ""
    fine: tuple[int, ...] = (0,)
    process: subprocess.Popen[bytes] | None = None

    def shown(self) -> dict[str, Any]:
        """The job as the page shows it."""
        command = " ".join(["deepcanon", *self.words])
        return {"id": self.id, "what": self.what, "title": self.title, "folder": self.folder, "status": self.status,
                "said": self.said, "command": command}  # fmt: skip


class Jobs:
    """The jobs of a studio: so many at a time, the others wait."""

    def __init__(self, studio: Studio, at_once: int = 1) -> None:
        self.studio = studio
        self.at_once = at_once
        self.version = 0
        self._jobs: dict[str, Job] = {}
        self._lock = threading.RLock()

    def shown(self) -> list[dict[str, Any]]:
        """All jobs, the last first."""
        with self._lock:
            return [job.shown() for job in reversed(self._jobs.values())]

    def promised(self) -> list[Path]:
        """The folders of jobs that wait or run, which may not be there yet."""
        with self._lock:
            return [
                self.studio.root / job.folder for job in self._jobs.values() if job.status in ("waiting", "running")
            ]

    def add(
        self, what: str, title: str, words: list[str], folder: Path, *, fine: tuple[int, ...] = (0,)
    ) -> dict[str, Any]:
        """Put a job into the queue; ``fine`` are the exit codes of one that has done its work."""
        with self._lock:
            if sum(job.status == "waiting" for job in self._jobs.values()) >= MOST_WAITING:
                raise UsageError(f"{MOST_WAITING} jobs wait already: stop some of them")
            job = Job(what, title, words, folder.relative_to(self.studio.root).as_posix(), fine=fine)
            self._jobs[job.id] = job
            self.version += 1
            self._start()
            return job.shown()

    def stop(self, id: str, *, now: bool = False) -> dict[str, Any]:
        """Ask a job to stop, which saves what it has; ``now`` ends it without asking."""
        with self._lock:
            if id not in self._jobs:
                raise UnknownId(f"there is no job {id[:40]!r} here")
            job = self._jobs[id]
            if job.status == "waiting":
                job.status = "stopped"
                self.version += 1
            elif job.process is not None and job.process.poll() is None:
                job.process.send_signal(signal.SIGKILL if now else signal.SIGTERM)
            return job.shown()

    def _start(self) -> None:
        running = sum(job.status == "running" for job in self._jobs.values())
        for job in list(self._jobs.values()):
            if running >= self.at_once:
                return
            if job.status == "waiting":
                running += 1
                job.status = "running"
                complaints = self.studio.caches / "jobs" / f"{job.id}.txt"
                complaints.parent.mkdir(parents=True, exist_ok=True)
                with complaints.open("wb") as errors:  # no pipe: a job that writes into one when we have ended dies
                    job.process = subprocess.Popen(
                        [sys.executable, "-m", "deepcanon", *job.words],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=errors,
                        start_new_session=True,
                    )
                self.version += 1
                threading.Thread(target=self._wait, args=(job, job.process, complaints), daemon=True).start()

    def _wait(self, job: Job, process: subprocess.Popen[bytes], complaints: Path) -> None:
        """Wait for the end of a job, and keep the last of what it has said on stderr."""
        code = process.wait()
        with complaints.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4000))
            last = file.read(4000)
        complaints.unlink()
        lines = [line for line in last.decode(errors="replace").splitlines() if line.strip()]
        with self._lock:
            stopped = code in (-signal.SIGTERM, -signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGINT)
            job.status = "finished" if code in job.fine else "stopped" if stopped else "failed"
            job.said = lines[-1].removeprefix(_PREFIX)[:1000] if job.status == "failed" and lines else ""
            self.version += 1
            self._start()


def stop_process(process: int | None, *, now: bool = False) -> None:
    """Ask the process that trains in a folder to stop, whoever has started it."""
    if process is None or process <= 1:
        raise UsageError("nothing trains in this run's folder")
    try:
        os.kill(process, signal.SIGKILL if now else signal.SIGTERM)
    except ProcessLookupError:
        raise UsageError("it has just ended") from None
    except PermissionError:
        raise UsageError("the process that trains there belongs to somebody else") from None


_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
MOST_VALUE = 1000


def checked_options(given: Any) -> dict[str, str | bool]:
    """Options by name, each a text, a number or true or false; empty ones are left out."""
    if not isinstance(given, dict) or len(given) > 200:
        raise UsageError("options are an object of JSON, with a value for each name")
    found: dict[str, str | bool] = {}
    for name, value in given.items():
        if not _NAME.fullmatch(name) or len(name) > 80:
            raise UsageError(f"{name!r:.60} is not the name of an option")
        if not isinstance(value, str | int | float):
            raise UsageError(f"{name} takes a text, a number, true or false")
        text = value if isinstance(value, bool) else str(value).strip()
        if isinstance(text, str) and (len(text) > MOST_VALUE or not text.isprintable()):
            raise UsageError(f"{name} takes one line of at most {MOST_VALUE} letters")
        if text != "":
            found[name] = text
    return found


def as_words(options: Mapping[str, str | bool]) -> list[str]:
    """Options as words of a command line, of which none can be taken for another option.

    >>> as_words({"hidden": "64,64", "bias": False, "data": "--out"})
    ['--hidden=64,64', '--no-bias', '--data=--out']
    """
    words = []
    for name, value in options.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            head, dot, last = option.rpartition(".")
            words.append(f"--{option}" if value else f"--{head}{dot}no-{last}")
        else:
            words.append(f"--{option}={value}")
    return words

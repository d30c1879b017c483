"""The frame of all attacks: commands in processes of their own, and what may never come of one.

An attack is a file of this folder without an underscore, with a class ``Attack``: ``Attack(folder)`` prepares once what
its trials need, and ``trial(chance, folder)`` does one of them in an empty folder. All that it chooses, it chooses by
``chance``, which is a function of the name of the attack, the seed and the number of the trial, so that each trial can
be repeated alone. ``python -m tests.attacks --help`` says how.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

LIMIT = 60
"""Seconds of processor time that a process may take."""
PATIENCE = 600.0
"""Seconds on the clock after which a process that has not ended waits for nothing, however busy the machine is."""
LONGEST_MESSAGE = 4000
"""Characters on stderr beyond which nobody reads what was wrong."""
EXPECTED_CODES = (0, 1, 2)

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.attacks._warm"])


@dataclass(frozen=True)
class Trial:
    """One trial: what was done, and the fault in a sentence, which is empty where the library has held."""

    what: str
    fault: str = ""


class Attack(Protocol):
    """A class of attacks; ``FAST`` is the number of trials in the ordinary tests, ``SLOW`` that in those marked so."""

    FAST: int
    SLOW: int

    def __init__(self, folder: Path) -> None: ...

    def trial(self, chance: random.Random, folder: Path) -> Trial: ...


@dataclass(frozen=True)
class Ended:
    """How a process has ended; ``code`` is None if it has waited without end and had to be killed."""

    code: int | None
    out: str
    err: str
    seconds: float


class Child:
    """A process that is running, forked from one that has imported the library: a real process with a real end."""

    def __init__(self, process: Any, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.began = time.monotonic()

    def kill(self) -> None:
        """SIGKILL: the process gets no chance to do anything more."""
        self.process.kill()

    def wait(self, patience: float = PATIENCE) -> Ended:
        self.process.join(patience)
        seconds, code = time.monotonic() - self.began, self.process.exitcode
        if code is None:
            self.process.kill()
            self.process.join()
        out, err = (self._read(name) for name in ("stdout", "stderr"))
        shutil.rmtree(self.folder)
        return Ended(code, out, err, seconds)

    def _read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def start(function: str, *arguments: Any, cwd: Path, memory: int | None = None, seconds: int = LIMIT) -> Child:
    """Call ``module:function`` in a process of its own, in the folder ``cwd``.

    Its memory is limited to so many bytes, and its processor time, which other work on the machine does not stretch.
    """
    output = cwd / f".output-{time.monotonic_ns()}"
    output.mkdir(parents=True)
    given = (function, arguments, str(cwd), str(output), memory, seconds)
    process = _PROCESSES.Process(target=_called, args=given)
    process.start()
    return Child(process, output)


def start_command(words: Sequence[str], cwd: Path, *, pictures: bool = True, **options: Any) -> Child:
    """The command line ``deepcanon WORDS`` in a process of its own; ``pictures`` of a run take most of its time."""
    return start("tests.attacks._frame:deepcanon", list(words), pictures, cwd=cwd, **options)


def run_command(words: Sequence[str], cwd: Path, **options: Any) -> Ended:
    """Run ``deepcanon WORDS`` to its end."""
    return start_command(words, cwd, **options).wait()


def deepcanon(words: list[str], pictures: bool = True) -> None:
    import deepcanon.pictures
    from deepcanon.cli.app import app

    if not pictures:
        deepcanon.pictures.draw_run = lambda *_: []
    sys.argv = ["deepcanon", *words]
    app(words, prog_name="deepcanon")


def _called(function: str, arguments: Sequence[Any], cwd: str, output: str, memory: int | None, seconds: int) -> None:
    """What the child does: its output goes to files, so that no pipe can fill up and hold it."""
    os.chdir(cwd)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(os.path.join(output, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    module, _, name = function.partition(":")
    getattr(importlib.import_module(module), name)(*arguments)


def fault(ended: Ended) -> str:
    """What may never come of a command, whatever was asked or found on disk: a sentence, or nothing if it held."""
    last = next((line for line in reversed(ended.err.splitlines()) if line.strip()), "")
    if ended.code is None:
        return f"it did not end within {ended.seconds:.0f} s"
    if "Traceback (most recent call last)" in ended.err + ended.out:
        return f"it ended in a traceback: {last[:300]}"
    if ended.code == -signal.SIGXCPU:
        return "it took more processor time than it may"
    if ended.code < 0:
        return f"it died of signal {-ended.code}: {last[:300]}"
    if ended.code not in EXPECTED_CODES:
        return f"it ended with the code {ended.code}: {last[:300]}"
    if ended.code != 0 and not last:
        return f"it ended with the code {ended.code} and without a word"
    if ended.code != 0 and len(ended.err) > LONGEST_MESSAGE:
        return f"its message has {len(ended.err)} characters: {ended.err[:100]}"
    return ""


def attacks() -> dict[str, type[Attack]]:
    """All attacks by the names of their files."""
    names = (path.stem for path in sorted(Path(__file__).parent.glob("[a-z]*.py")) if not path.stem.startswith("test_"))
    return {name: importlib.import_module(f"tests.attacks.{name}").Attack for name in names}


def trials(attack: Attack, name: str, numbers: Sequence[int], seed: int, folder: Path) -> Iterator[tuple[int, Trial]]:
    """The trials of an attack with these numbers, one after the other, each in an empty folder that is removed."""
    for number in numbers:
        place = folder / f"trial-{number}"
        place.mkdir()
        yield number, attack.trial(random.Random(f"{name} {seed} {number}"), place)
        shutil.rmtree(place)

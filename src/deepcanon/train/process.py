"""The process that trains: its signals, determinism, memory, locks and frozen parameters."""

from __future__ import annotations

import ctypes
import fnmatch
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch

try:
    import fcntl
except ImportError:  # there is no such lock on Windows
    fcntl = None  # type: ignore[assignment]

from deepcanon.core import Model, UsageError
from deepcanon.core.files import open_plain
from deepcanon.core.memory import need
from deepcanon.core.options import parse
from deepcanon.core.plural import counted
from deepcanon.core.settings import Settings


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from training into the same folder; the lock of a process that dies is released."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = open_plain(folder / ".lock", os.O_WRONLY)
    except OSError as error:
        raise UsageError(f"cannot write to the folder {folder}: {error.strerror}") from error
    with open(handle, "w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UsageError(f"another process is training in {folder}: wait for it or stop it") from error
        yield


class Signals:
    """A handler that remembers SIGINT and SIGTERM instead of ending; the second signal ends the process."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():  # elsewhere Python lets no one listen
            self._before = {number: signal.signal(number, self._catch) for number in (signal.SIGINT, signal.SIGTERM)}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.caught = number
        signal.signal(number, self._before[number])


@contextmanager
def deterministic(wanted: bool) -> Iterator[None]:
    """Only algorithms that give the same bits every time, where ``wanted``."""
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it cuBLAS refuses to be deterministic
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@cache
def keep_freed_memory() -> None:
    """Let the process keep the memory that a step frees: the next one needs as much.

    glibc otherwise gives large blocks back to the system after every step, and each page is faulted in anew. What the
    user has set for the allocator, and other C libraries, are left alone.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if set_option is None or any(name.startswith("MALLOC_") for name in os.environ):
        return
    set_option(_TRIM_THRESHOLD, _LARGEST_KEPT)
    set_option(_MMAP_THRESHOLD, _LARGEST_KEPT)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # the numbers of these options in malloc.h
_LARGEST_KEPT = 2**30


def check_memory(model: Model[Any], settings: Settings) -> None:
    """Refuse a model whose gradients, with the moments that an optimizer keeps of them, do not fit into memory."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    copies = 1 if parse(settings["optimizer"])[0] == "sgd" else 3
    what = f"training {model.name()} with {counted(sum(each.numel() for each in parameters), 'parameter', ',')}"
    size = copies * sum(each.nbytes for each in parameters)
    need(size, what, "take a smaller model, or the optimizer sgd")


@contextmanager
def frozen(model: Model[Any], patterns: Sequence[str]) -> Iterator[None]:
    """Inside, parameters whose names match (``encoder.*`` for instance) require no gradient."""
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    matching = {pattern: fnmatch.filter(names, pattern) for pattern in patterns}
    for pattern, found in matching.items():
        if not found:
            raise UsageError(f"freeze={pattern!r} matches no parameter of {model.name()}; it has {', '.join(names)}")
    parameters = [model.get_parameter(name) for found in matching.values() for name in found]
    try:
        for parameter in parameters:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)

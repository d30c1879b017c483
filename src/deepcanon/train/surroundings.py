"""What surrounds a training: signals, determinism, frozen parameters, data that suit the model."""

from __future__ import annotations

import fnmatch
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from deepcanon.core import Model, UsageError
from deepcanon.data import Dataset


class Signals:
    """Remembers SIGINT and SIGTERM instead of dying of them; the second one is let through."""

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


def freeze(model: Model[Any], patterns: Sequence[str]) -> None:
    """Stop training the parameters whose names match, ``encoder.*`` for instance."""
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        matching = fnmatch.filter(names, pattern)
        if not matching:
            raise UsageError(f"freeze={pattern!r} matches no parameter of {model.name()}; it has {', '.join(names)}")
        for name in matching:
            model.get_parameter(name).requires_grad_(False)


def check_suitable(model: Model[Any], data: Dataset[Any]) -> None:
    """Refuse data of another kind than the model learns from."""
    wanted, given = model.eats(), type(data.train)
    if not issubclass(given, wanted):
        raise UsageError(f"{model.name()} learns from {wanted.words}; {data.name} gives {given.words}")
    if len(data.train) == 0:
        raise UsageError(f"{data.name} has no training examples")

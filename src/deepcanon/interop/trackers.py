"""Observers that hand the log of a training on to another tool: TensorBoard, MLflow, trackio or wandb.

A tool gets the numbers that ``log.jsonl`` holds, under the names ``train/loss``, ``train/TERM``, ``train/lr``,
``train/grad_norm``, ``valid/METRIC`` and, once the training has been measured, ``test/METRIC``. Nothing else of the
training changes: not a random number is drawn, and a run that is resumed ends with the same bits, and with one curve in
the tool. All of it stays on this machine.
"""

from __future__ import annotations

import hashlib
import importlib
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from deepcanon.core import Terms, UsageError
from deepcanon.core.files import as_json
from deepcanon.core.options import choose
from deepcanon.train.observers import Observer
from deepcanon.train.randomness import kept
from deepcanon.train.result import Result
from deepcanon.train.trainer import Trainer

Logged = set[tuple[str, int]]
"""The numbers that a tool holds already: their names and steps."""


class Tracker(Observer):
    """The base of the observers that log to a tool; each opens a run of its tool, writes numbers and closes it."""

    package: ClassVar[str]
    """The package that must be installed."""
    extra: ClassVar[str]
    """What installs it: an extra of ours or, where there can be none, the package."""

    def __init__(self) -> None:
        try:
            importlib.import_module(self.package)
        except ImportError as error:
            raise UsageError(
                f"logging to {type(self).__name__} needs the package {self.package}: pip install '{self.extra}'"
            ) from error
        self._sent = 0
        self._there: Logged = set()

    def _open(self, name: str, identity: str, about: Mapping[str, Any], folder: Path | None) -> Logged:
        """Begin the tool's run, or go on with the one of this identity; what it holds already is not sent again."""
        raise NotImplementedError

    def _write(self, values: Mapping[str, float], step: int, seconds: float) -> None:
        """Log these numbers at a step, which was taken at a time in seconds since the epoch of clocks."""
        raise NotImplementedError

    def _close(self, *, finished: bool) -> None:
        """End the tool's run; of one that has not finished it may be gone on with."""
        raise NotImplementedError

    def begin(self, trainer: Trainer) -> None:
        if not trainer.world.first:
            return
        folder = None if trainer.run is None else trainer.run.dir.absolute()
        created = uuid.uuid4().hex if trainer.run is None else f"{folder} {trainer.run.info['created']}"
        identity = hashlib.sha256(created.encode()).hexdigest()[:16]
        name = trainer.model.name() if folder is None else f"{folder.name}-{identity[:6]}"
        with kept():  # a tool may draw a name for itself
            self._there = self._open(name, identity, _about(trainer), folder)
            self._sent = 0
            self._send(trainer)

    def step(self, trainer: Trainer, terms: Terms) -> None:
        if trainer.world.first and len(trainer.log.history) > self._sent:
            self._send(trainer)

    def epoch(self, trainer: Trainer, valid: dict[str, float]) -> None:
        if trainer.world.first:
            self._send(trainer)

    def end(self, trainer: Trainer) -> None:
        if trainer.world.first:
            with kept():
                self._send(trainer)
                if not trainer.done:
                    self._close(finished=False)

    def done(self, trainer: Trainer, result: Result) -> None:
        if trainer.world.first:
            with kept():
                self._write({f"test/{name}": value for name, value in result.test.items()}, result.steps, time.time())
                self._close(finished=True)

    def _send(self, trainer: Trainer) -> None:
        """Write the records of the log that have come since the last time."""
        now, seconds = time.time(), trainer.seconds()
        for record in trainer.log.history[self._sent :]:
            step = record["step"]
            values = {name: value for name, value in numbers_of(record) if (name, step) not in self._there}
            if values:
                self._write(values, step, now - seconds + record["seconds"])
        self._sent = len(trainer.log.history)


def numbers_of(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a record of the log by the names that a tool gets; those that are not finite are left out.

    >>> dict(numbers_of({"kind": "step", "step": 1, "terms": {"kl": 0.5, "nll": None}, "loss": 0.5, "lr": 0.1}))
    {'train/kl': 0.5, 'train/loss': 0.5, 'train/lr': 0.1}
    """
    found = {f"train/{name}": value for name, value in record.get("terms", {}).items()}
    found |= {f"train/{name}": record.get(name) for name in ("loss", "lr", "grad_norm")}
    found |= {f"valid/{name}": value for name, value in record.get("valid", {}).items()}
    return ((name, value) for name, value in found.items() if value is not None)


def _about(trainer: Trainer) -> dict[str, Any]:
    """What a training is, as a flat table: its model with its arguments, its data and its settings."""
    arguments = {f"model.{name}": value for name, value in trainer.model.hparams.items()}
    about = {"model": trainer.model.name(), "data": trainer.given.name, **arguments, **trainer.settings}
    return {
        name: value if isinstance(value, str | int | float) else str(as_json(value)) for name, value in about.items()
    }


TOOLS: Mapping[str, tuple[str, str]] = {
    "tensorboard": ("tensorboard_tracker", "TensorBoard"),
    "mlflow": ("mlflow_tracker", "MLflow"),
    "trackio": ("wandb_tracker", "Trackio"),
    "wandb": ("wandb_tracker", "Wandb"),
}
"""The file and the class of the observer that logs to a tool, by the name that the command line takes."""


def tracker(tool: str) -> Tracker:
    """The observer that logs to the tool of this name, with its defaults."""
    choose("tool", tool, TOOLS)
    file, name = TOOLS[tool]
    kind: type[Tracker] = getattr(importlib.import_module(f"deepcanon.interop.{file}"), name)
    return kind()

"""Progress: a bar in a terminal, a curve in a notebook, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from deepcanon.core import Terms
from deepcanon.train.observers import Log, Observer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from deepcanon.train.trainer import Trainer

_SECONDS_BETWEEN_FRAMES = 0.4
_SECONDS_BETWEEN_LINES = 10.0


class Bar(Observer):
    """A bar with loss, speed and time left, redrawn a few times a second."""

    def __init__(self, log: Log, console: Console | None = None) -> None:
        self.log = log
        self.console = console
        self._valid: dict[str, float] = {}
        self._drawn = 0.0
        self._bar: Progress | None = None
        self._task: TaskID

    def begin(self, trainer: Trainer) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[numbers]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
        )
        self._bar = Progress(*columns, auto_refresh=False, console=self.console)
        self._task = self._bar.add_task(trainer.model.name(), total=trainer.total, numbers="", speed="")
        self._bar.start()

    def step(self, trainer: Trainer, terms: Terms) -> None:
        now = time.monotonic()
        if now - self._drawn >= _SECONDS_BETWEEN_FRAMES:
            self._drawn = now
            self._draw(trainer)

    def epoch(self, trainer: Trainer, valid: dict[str, float]) -> None:
        self._valid = valid

    def end(self, trainer: Trainer) -> None:
        if self._bar is not None:
            self._draw(trainer)
            self._bar.stop()

    def _draw(self, trainer: Trainer) -> None:
        if self._bar is None:
            return
        description = f"{trainer.model.name()} epoch {trainer.epoch}/{trainer.epochs}"
        numbers = numbers_in_words(self.log.latest, self._valid)
        self._bar.update(
            self._task,
            completed=trainer.step,
            description=description,
            numbers=numbers,
            speed=speed_in_words(trainer.speed()),
        )
        self._bar.refresh()


class Lines(Observer):
    """Plain lines, for logs and pipes: one per epoch, and in a long epoch one every ten seconds."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._said = 0.0

    def begin(self, trainer: Trainer) -> None:
        self._said = time.monotonic()

    def step(self, trainer: Trainer, terms: Terms) -> None:
        due = time.monotonic() - self._said >= _SECONDS_BETWEEN_LINES
        if due and trainer.step < trainer.plan.end(trainer.epoch - 1):
            self._say(trainer, {name: float(value) for name, value in terms.items()}, {})

    def epoch(self, trainer: Trainer, valid: dict[str, float]) -> None:
        self._say(trainer, self.log.latest, valid)

    def _say(self, trainer: Trainer, terms: dict[str, float], valid: dict[str, float]) -> None:
        self._said = time.monotonic()
        left = trainer.seconds() / max(1, trainer.step) * (trainer.total - trainer.step)
        where = f"epoch {trainer.epoch}/{trainer.epochs}  step {trainer.step}/{trainer.total}"
        numbers = numbers_in_words(terms, valid)
        rest = f"{timedelta(seconds=round(left))} left"
        say("  ".join(filter(None, (where, numbers, speed_in_words(trainer.speed()), rest))))


def progress(log: Log) -> Observer:
    """The progress display that suits the output."""
    if in_notebook():
        from deepcanon.train.live_curve import LiveCurve

        return LiveCurve(log)
    return Bar(log) if sys.stdout.isatty() else Lines(log)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which displays what is drawn."""
    interactive = sys.modules.get("IPython")  # a kernel has imported it before anything of ours
    shell = interactive.get_ipython() if interactive is not None else None
    return getattr(shell, "kernel", None) is not None


def say(sentence: str) -> None:
    """One line to whoever is looking, at once."""
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


def numbers_in_words(terms: dict[str, float], valid: dict[str, float]) -> str:
    """The means of the terms, and what else was measured on the validation split."""
    held_out = {name: value for name, value in valid.items() if name not in terms and name != "loss"}
    shown = {**terms, **{f"valid {name}": value for name, value in held_out.items()}}
    return "  ".join(f"{name} {value:.4g}" for name, value in shown.items())


def speed_in_words(speed: float) -> str:
    """Steps per second, or of a slow training the seconds per step; nothing where no step was taken yet.

    >>> [speed_in_words(speed) for speed in (123.4, 3.21, 0.25, 0.0)]
    ['123 steps/s', '3.2 steps/s', '4.0 s/step', '']
    """
    if speed <= 0:
        return ""
    return f"{1 / speed:.1f} s/step" if speed < 1 else f"{speed:.{0 if speed >= 10 else 1}f} steps/s"

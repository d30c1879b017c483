"""The live curve of a training in a notebook, which also shows a training that has ended."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deepcanon.core import Terms
from deepcanon.core.display import notebook, sentences
from deepcanon.core.svg import Point, curves
from deepcanon.train.observers import Log, Observer
from deepcanon.train.progress import numbers_in_words, speed_in_words

if TYPE_CHECKING:
    from deepcanon.train.trainer import Trainer

_SECONDS_BETWEEN_FRAMES = 0.5
_SHARE = 0.02
"""The most of a training's time that drawing may take."""
_MOST_CURVES = 6


class Course:
    """A training as a notebook displays it: where it stands, and the curves of its loss."""

    def __init__(self, title: str, status: str, history: Sequence[Mapping[str, Any]]) -> None:
        self.title, self.status, self.history = title, status, history

    def __repr__(self) -> str:
        return f"{self.title}: {self.status}"

    def _repr_html_(self) -> str:
        return notebook(self.title, sentences([self.status]), curve_of(self.history))


class LiveCurve(Observer):
    """One display in a notebook, replaced as the training goes on: at most twice a second, and rarely if it is slow."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._valid: dict[str, float] = {}
        self._due = 0.0
        self._shown: Any = None

    def begin(self, trainer: Trainer) -> None:
        from IPython.display import display

        self._shown = display(self._course(trainer), display_id=True)
        self._due = time.monotonic() + _SECONDS_BETWEEN_FRAMES

    def step(self, trainer: Trainer, terms: Terms) -> None:
        if (now := time.monotonic()) >= self._due:
            self._shown.update(self._course(trainer))
            done = time.monotonic()
            self._due = done + max(_SECONDS_BETWEEN_FRAMES, (done - now) / _SHARE)

    def epoch(self, trainer: Trainer, valid: dict[str, float]) -> None:
        self._valid = valid

    def end(self, trainer: Trainer) -> None:
        if self._shown is not None:
            self._shown.update(self._course(trainer))

    def _course(self, trainer: Trainer) -> Course:
        numbers = numbers_in_words(self.log.latest, self._valid)
        where = f"epoch {trainer.epoch} of {trainer.epochs}, step {trainer.step:,} of {trainer.total:,}"
        status = "  ".join(filter(None, (where, numbers, speed_in_words(trainer.speed()))))
        return Course(f"{trainer.model.name()} on {trainer.given.name}", status, self.log.history)


def curve_of(history: Sequence[Mapping[str, Any]]) -> str:
    """The curves of a log: the loss, its terms where there are several, and the loss on the validation split."""
    steps = [record for record in history if record["kind"] == "step"]
    found: dict[str, list[Point]] = {"loss": [(record["step"], _value(record["loss"])) for record in steps]}
    for record in history:
        if record["kind"] == "epoch" and "loss" in record["valid"]:
            found.setdefault("validation loss", []).append((record["step"], _value(record["valid"]["loss"])))
    terms = dict.fromkeys(name for record in steps for name in record["terms"])
    for name in list(terms)[: _MOST_CURVES - len(found)] if len(terms) > 1 else ():
        found[name] = [(record["step"], _value(record["terms"][name])) for record in steps if name in record["terms"]]
    return curves(found, "step", "loss")


def _value(stored: float | None) -> float:
    """A number of a log, in which nothing stands for one that is not finite."""
    return math.nan if stored is None else stored

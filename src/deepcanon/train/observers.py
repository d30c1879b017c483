"""Observers (callbacks) of a training: log, early stopping, checkpoints. They never draw random numbers.

Each has a state, which goes into every checkpoint, so that after a resume it goes on as if nothing had happened.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor
from typing_extensions import TypedDict

from deepcanon.core import DivergenceError, Model, Terms, Turn, UsageError
from deepcanon.core.files import as_json
from deepcanon.core.plural import counted
from deepcanon.core.settings import Settings
from deepcanon.core.stored import held_to
from deepcanon.runs import checkpoint
from deepcanon.train.scores import OF_CLASSES, OF_TARGETS
from deepcanon.train.steps import Descender

if TYPE_CHECKING:
    from deepcanon.train.result import Result
    from deepcanon.train.trainer import Trainer

HIGHER_IS_BETTER = frozenset({"accuracy", "exact_match", "log_prob", "r2", *OF_CLASSES})
_SECONDS_BETWEEN_CHECKPOINTS = 60.0
_EXPLOSION = 1e4


class LogState(TypedDict):
    """The state of the log in a checkpoint."""

    length: int
    first: float | None
    latest: dict[str, float]


class WatchState(TypedDict):
    """The state of early stopping in a checkpoint."""

    name: str
    sign: float
    best: float | None
    last: float | None
    step: int
    weights: dict[str, Any]
    waited: int


class Observer:
    """An observer (callback), called in the course of a training; this one does nothing.

    Derive from it, write the methods that you need, and give instances by ``observers=``; ``docs/observers.md`` has an
    example. It may end the training by ``trainer.stop(reason)``, and must not draw random numbers.
    """

    def begin(self, trainer: Trainer) -> None:
        """Called before the first step, and again when a run is resumed."""

    def turn(self, trainer: Trainer, turn: Turn[Any], terms: Terms) -> None:
        """Called after each of the model's turns that a step plays, with the terms of its loss."""

    def step(self, trainer: Trainer, terms: Terms) -> None:
        """Called after each step with the terms of its loss, tensors on the device: ``item()`` waits for it."""

    def epoch(self, trainer: Trainer, valid: dict[str, float]) -> None:
        """Called after each epoch with the measures on the validation split, empty where there is none."""

    def end(self, trainer: Trainer) -> None:
        """Called when the training ends, also where it fails."""

    def done(self, trainer: Trainer, result: Result) -> None:
        """Called after ``end`` once a training that did not fail has been measured, with its result."""

    def state(self) -> dict[str, Any]:
        """What it must remember: goes into every checkpoint, made of numbers, texts, tensors, lists and mappings."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back the state of the checkpoint that a run is resumed from."""


class Log(Observer):
    """The log: means of the terms over a few steps, in memory and on disk; it stops a training that diverges.

    Terms stay on the device until they are written, so that no step waits for one.
    """

    def __init__(self) -> None:
        self.history: list[dict[str, Any]] = []
        self.latest: dict[str, float] = {}
        self.every = 1
        self._pending: dict[str, list[tuple[int, Tensor]]] = {}
        self._first: float | None = None
        self._length = 0

    def begin(self, trainer: Trainer) -> None:
        # Short trainings are logged densely, long ones sparsely: a curve needs some two hundred points.
        self.every = min(50, max(1, trainer.total // 200))

    def wants_norm(self, step: int) -> bool:
        return step % self.every == 0

    def step(self, trainer: Trainer, terms: Terms) -> None:
        for name, value in terms.items():
            self._pending.setdefault(name, []).append((trainer.step, value))
        if trainer.step % self.every == 0:
            self.flush(trainer)

    def epoch(self, trainer: Trainer, valid: dict[str, float]) -> None:
        self.flush(trainer)
        if valid:
            self.write(
                trainer,
                {"kind": "epoch", **moment(trainer), "valid": as_json(valid)},
            )

    def flush(self, trainer: Trainer, *, sync: bool = False) -> None:
        """Write what has gathered since the last time."""
        record: dict[str, Any] = {}
        trouble = ""
        if self._pending:
            columns = {name: [step for step, _ in pairs] for name, pairs in self._pending.items()}
            values = {name: torch.stack([v for _, v in pairs]).tolist() for name, pairs in self._pending.items()}
            self._pending = {}
            trouble = _not_finite(columns, values)
            self.latest = {name: sum(column) / len(column) for name, column in values.items()}
            loss = sum(self.latest.values())
            trouble = trouble or self._exploding(trainer, loss)
            record = {"kind": "step", **moment(trainer), "terms": self.latest, "loss": loss}
            if any(isinstance(player, Descender) for player in trainer.players):  # a rule without gradient has no rate
                record["lr"] = trainer.lr()
            norms = [player.norm for player in trainer.players if player.norm is not None]
            if norms:
                record["grad_norm"] = as_json(torch.stack(norms).square().sum().sqrt().item())
        if trainer.world.agree(bool(trouble)):
            raise DivergenceError(f"{trouble or 'training diverged'}; {_advice(trainer)}")
        if record:
            self.write(trainer, record, sync=sync)
        elif sync and trainer.run is not None and trainer.world.first:
            self._length = trainer.run.append([], sync=True)

    def _exploding(self, trainer: Trainer, loss: float) -> str:
        if self._first is None:
            self._first = loss
        if trainer.model.surrogate or loss <= _EXPLOSION * (abs(self._first) + 1):  # it may be negative, and fall
            return ""
        return f"the loss exploded from {self._first:.4g} to {loss:.4g} by step {trainer.step}"

    def write(self, trainer: Trainer, record: dict[str, Any], *, sync: bool = False) -> None:
        """Add a record, in memory and on disk."""
        self.history.append(record)
        if trainer.run is not None and trainer.world.first:
            self._length = trainer.run.append([record], sync=sync)

    def state(self) -> dict[str, Any]:
        return {"length": self._length, "first": self._first, "latest": dict(self.latest)}

    def restore(self, state: dict[str, Any]) -> None:
        held_to(LogState, state, Path(checkpoint.VALUES), "observers.Log")
        self._length, self._first, self.latest = state["length"], state["first"], state["latest"]

    def rewind(self, trainer: Trainer) -> list[str]:
        """Take the log back to the checkpoint that training goes on from; what is wrong with it, a sentence each."""
        run, lost = trainer.run, []
        if run is None:
            return []
        trainer.world.first_does(lambda: lost.append(run.cut_log(self._length)))
        self.history, complaints = run.checked_log()
        return [*filter(None, lost), *complaints]


class Watch(Observer):
    """Early stopping: keeps the best weights by a validation metric, stops after ``patience`` epochs without better.

    Where a model is trained in phases (layers are added, weights pruned), only the last one counts: what came before is
    not yet the model. With class weights (``weighted``) the default is the balanced accuracy. ``best`` and ``last`` are
    values of the metric times its ``sign``, +1 where more is better.
    """

    def __init__(
        self, metric: str | None, patience: int | None = None, *, keep: bool = True, weighted: bool = False
    ) -> None:
        self.metric = metric
        self.patience = patience
        self.keep = keep
        self.weighted = weighted
        self.name = ""
        self.sign = -1.0
        self.best: float | None = None
        self.last: float | None = None
        self.best_step = 0
        self.weights: dict[str, Tensor] = {}
        self.waited = 0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The one that these settings ask for."""
        keep, weighted = settings["keep_weights"] == "best", settings["class_weight"] is not None
        return cls(settings["watch"], settings["patience"], keep=keep, weighted=weighted)

    @property
    def asked(self) -> bool:
        """Whether the caller wants it, so that a metric must be there."""
        return self.metric is not None or self.patience is not None

    @property
    def whole(self) -> bool:
        """Whether the metric is one of all predictions at once."""
        return self.weighted or (self.metric or "").rpartition(":")[2] in (*OF_CLASSES, *OF_TARGETS)

    def epoch(self, trainer: Trainer, valid: dict[str, float]) -> None:
        self.choose(trainer, valid)
        if not self.name or trainer.step <= trainer.settled:
            return
        self.last = value = self.sign * valid[self.name]
        if self.best is None or value > self.best or math.isnan(self.best):
            self.best, self.best_step, self.waited = value, trainer.step, 0
            if self.keep:
                self.weights = checkpoint.freeze_state(trainer.model.state_dict())
            return
        self.waited += 1
        if self.patience is not None and self.waited >= self.patience:
            trainer.stop(f"no better validation {self.name} for {counted(self.waited, 'epoch')}")

    def choose(self, trainer: Trainer, valid: dict[str, float]) -> None:
        """Choose the metric, once, by what is measured; a metric that was asked for must be there."""
        direction, colon, name = (self.metric or "").rpartition(":")
        fit = "balanced_accuracy" if self.weighted else _fit(trainer.model, valid, self.asked)
        name = self.name or name or fit
        if not name and not self.asked:
            return
        if name not in valid or (colon and direction not in ("max", "min")):
            raise UsageError(
                f"cannot watch {self.metric or 'a metric'!r} of {trainer.model.name()}: "
                f"validation gives {', '.join(valid) or 'nothing'}; max: or min: before the name says which is better"
            )
        higher = direction == "max" if colon else name in HIGHER_IS_BETTER
        self.name, self.sign = name, 1.0 if higher else -1.0

    def state(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sign": self.sign,
            "best": self.best,
            "last": self.last,
            "step": self.best_step,
            "weights": self.weights,
            "waited": self.waited,
        }

    def restore(self, state: dict[str, Any]) -> None:
        held_to(WatchState, state, Path(checkpoint.VALUES), "observers.Watch")
        self.name, self.sign, self.best_step = state["name"], state["sign"], state["step"]
        self.best, self.last = state["best"], state["last"]
        self.weights, self.waited = state["weights"], state["waited"]


class Checkpoints:
    """The writer of checkpoints: every so many steps or, by default, once a minute."""

    def __init__(self, every: int | None) -> None:
        self.every = every
        self._last = time.monotonic()

    def due(self, trainer: Trainer) -> bool:
        if self.every is not None:
            return trainer.step % self.every == 0
        # Processes must agree, and their clocks do not; asking at every step would cost several of them too much.
        passed = time.monotonic() - self._last > _SECONDS_BETWEEN_CHECKPOINTS
        if (trainer.world.size > 1 and trainer.step % 10) or not trainer.world.agree(passed):
            return False
        self._last = time.monotonic()
        return True


def _fit(model: Model[Any], valid: dict[str, float], asked: bool) -> str:
    """The metric that measures how well a model fits: its loss; of a lower bound that is not the loss, the bound.

    Where the loss is a surrogate it is the first of the model's metrics, which stand after the loss, if asked for.
    """
    names = [*valid, ""]
    if "loss" not in valid:
        return ""
    if model.surrogate:
        return names[names.index("loss") + 1] if asked else ""
    bound = getattr(model, "likelihood_kind", None) == "lower bound"
    return "nll" if "nll" in valid and (bound or valid["nll"] == valid["loss"]) else "loss"


def moment(trainer: Trainer) -> dict[str, Any]:
    """When a record is written: the step, the epoch, and the seconds since the training began."""
    return {"step": trainer.step, "epoch": trainer.epoch, "seconds": round(trainer.seconds(), 3)}


def _not_finite(columns: dict[str, list[int]], values: dict[str, list[float]]) -> str:
    """A sentence about the first value that is not finite, if there is one."""
    bad = [
        (step, name, value)
        for name, column in values.items()
        for step, value in zip(columns[name], column, strict=True)
        if not math.isfinite(value)
    ]
    if not bad:
        return ""
    step, name, value = min(bad)
    return f"the term {name!r} became {value} at step {step}"


def _advice(trainer: Trainer) -> str:
    there = checkpoint.saved(trainer.run.checkpoints) if trainer.run is not None else []
    kept = f"the last good checkpoint is {there[-1]}; " if there else ""
    return f"{kept}try a smaller lr (it was {trainer.lr():.3g}), clip='norm:1', or look for extreme values in the data"

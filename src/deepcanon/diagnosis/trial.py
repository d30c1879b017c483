"""Trials: short trainings of copies, each with one thing changed, and the course that their loss takes."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, DivergenceError, Model
from deepcanon.diagnosis import clock
from deepcanon.train.observers import Observer
from deepcanon.train.trainer import Trainer

MOST_STEPS = 300
"""A trial is no longer: what is wrong shows early, or needs another check."""

LEAST_STEPS = 20


@dataclass(frozen=True)
class Change:
    """One thing that is changed in a copy before it is trained: a repair, or an experiment, told by its ``words``."""

    words: str
    rate: float = 1.0
    """What the learning rate is multiplied by."""
    on_model: Callable[[nn.Module], Any] | None = None
    on_data: Callable[[AnyBatch], AnyBatch] | None = None
    """Of the training split; it must keep the order of the examples."""
    on_optimizer: Callable[[torch.optim.Optimizer], Any] | None = None
    on_step: Callable[[torch.optim.Optimizer, int], Any] | None = None
    """Called right before each step of the optimizer, with the number of that step."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Training settings in place of the patient's own: ``batch_size``, ``clip``, ``schedule`` ..."""
    shuffled: bool | None = None


UNCHANGED = Change("as it is")
STILL = Change("as it is, but for the rate, which is next to 0", rate=1e-12)


@dataclass
class Course:
    """The course of a trial: the loss at each step, and the copy at its end."""

    losses: list[float]
    model: nn.Module
    diverged: str = ""
    """What was said when it broke off; empty if it did not."""
    seconds: float = 0.0
    asked: int = 0
    """The number of steps that were asked for."""
    taken: int = 0
    """The number of steps that were taken: fewer if it took too long."""
    rates: list[float] = field(default_factory=list)
    """The learning rate at each step of the optimizer, where that is known."""

    @property
    def steps(self) -> int:
        return len(self.losses)

    @cached_property
    def finite(self) -> bool:
        return not self.diverged and all(math.isfinite(loss) for loss in self.losses)

    @property
    def first(self) -> float:
        """The loss at the beginning, the mean of the first steps."""
        return _mean(self.losses[: max(1, min(3, len(self.losses) // 10))])

    @property
    def last(self) -> float:
        """The smoothed loss at the end: the mean of the last fifth; infinite if it is not finite."""
        if not self.finite:
            return math.inf
        return _mean(self.losses[-max(1, len(self.losses) // 5) :])

    @property
    def progress(self) -> float:
        """By how much the loss fell; negative if it rose."""
        return self.first - self.last


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


class Recorder(Observer):
    """An observer that keeps the loss of each step and ends the training after so many, or after so long."""

    def __init__(self, steps: int, seconds: float) -> None:
        self.losses: list[float] = []
        self.steps = steps
        self.taken = 0
        self.until = clock.now() + seconds

    def step(self, trainer: Trainer, terms: Mapping[str, Tensor]) -> None:
        self.taken = trainer.step
        if terms:  # a gradient written by hand comes without, but where it is logged
            self.losses.append(float(sum(value.detach().double() for value in terms.values())))
        late = clock.now() > self.until and trainer.step >= LEAST_STEPS
        if trainer.step >= self.steps or late or (self.losses and not math.isfinite(self.losses[-1])):
            trainer.stop("the trial is over")


def train_ours(
    model: Model[Any], data: Any, settings: Mapping[str, Any], steps: int, seconds: float, change: Change
) -> Course:
    """Train a copy of a model of ours by the trainer, its turns and its settings."""
    twin = copy.deepcopy(model)
    if change.on_model is not None:
        change.on_model(twin)
    if change.on_data is not None:
        data = _replaced(data, train=change.on_data(data.train))
    chosen: Any = {**settings, **change.settings, "lr": settings["lr"] * change.rate}
    recorder = Recorder(steps, seconds)
    start = clock.now()
    diverged = ""
    try:
        trainer = Trainer(twin, _replaced(data, valid=None, test=None), chosen, quiet=True, observers=[recorder])
        for player in trainer.players:
            optimizer = getattr(player, "optimizer", None)
            if optimizer is not None and change.on_optimizer is not None:
                change.on_optimizer(optimizer)
            if optimizer is not None and change.on_step is not None:
                before_steps(optimizer, change.on_step)
        trainer.fit()
    except DivergenceError as error:
        diverged = str(error)
    return Course(recorder.losses, twin, diverged, clock.now() - start, steps, recorder.taken)


def _replaced(data: Any, **parts: Any) -> Any:
    from dataclasses import replace

    return replace(data, **parts)


def before_steps(optimizer: torch.optim.Optimizer, change: Callable[[torch.optim.Optimizer, int], Any]) -> None:
    """Have a function called before each step of an optimizer."""
    numbers = itertools.count(1)
    optimizer.register_step_pre_hook(lambda *_: change(optimizer, next(numbers)))

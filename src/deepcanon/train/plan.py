"""The plan of a training: which steps each epoch has, and how large its batches are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from deepcanon.core import Turn
from deepcanon.core.settings import LARGEST, Settings
from deepcanon.optim import batch_size_schedule


class Stage(NamedTuple):
    """Consecutive epochs whose batches have one size: the first of them, and the steps done before it."""

    epoch: int
    start: int
    size: int
    steps: int
    """The steps of one epoch."""


class Plan:
    """The epochs of a training on so many examples, known before it begins: only the number of steps is a state.

    The last epoch is cut where the settings count steps. Epochs are not listed but grouped into stages, of which there
    are no more than sizes of batches, so that a training may be planned for as long as one likes.

    >>> from deepcanon.core import Recipe
    >>> from deepcanon.train.settings import resolve_settings
    >>> plan = Plan(100, resolve_settings(Recipe(batch_size=30, epochs=3), batch_size_schedule="exponential"))
    >>> [(plan.size(epoch), plan.start(epoch)) for epoch in range(plan.epochs)], plan.total
    ([(30, 0), (60, 4), (100, 6)], 7)
    """

    def __init__(self, examples: int, settings: Settings) -> None:
        schedule, first = batch_size_schedule(settings["batch_size_schedule"]), settings["batch_size"]
        epochs = settings["epochs"] if settings["steps"] is None else LARGEST

        def size(epoch: int) -> int:
            return min(schedule(epoch, first), max(examples, first))

        self.stages = [Stage(0, 0, first, -(-examples // first))]
        while (epoch := _next_stage(size, self.stages[-1], epochs)) < epochs:
            start = self.start(epoch)
            if settings["steps"] is not None and start >= settings["steps"]:
                break
            self.stages.append(Stage(epoch, start, size(epoch), -(-examples // size(epoch))))
        self.total = self.start(epochs) if settings["steps"] is None else settings["steps"]
        self.epochs = self.epoch_before(self.total)

    def size(self, epoch: int) -> int:
        """The size of the batches of an epoch, counted from 0."""
        return self._stage(epoch).size

    def start(self, epoch: int) -> int:
        """The steps done before an epoch, counted from 0."""
        stage = self._stage(epoch)
        return stage.start + (epoch - stage.epoch) * stage.steps

    def end(self, epoch: int) -> int:
        """The steps done after an epoch, counted from 0."""
        return min(self.start(epoch + 1), self.total)

    def epoch_before(self, step: int) -> int:
        """The epoch of the last of so many steps, counted from 1."""
        stage = self.stages[max(0, bisect_left(self.stages, step, key=attrgetter("start")) - 1)]
        return stage.epoch - (stage.start - step) // stage.steps

    def epoch_after(self, step: int) -> int:
        """The epoch of the step that follows so many, counted from 0."""
        stage = self.stages[bisect_right(self.stages, step, key=attrgetter("start")) - 1]
        return stage.epoch + (step - stage.start) // stage.steps

    def _stage(self, epoch: int) -> Stage:
        return self.stages[bisect_right(self.stages, epoch, key=attrgetter("epoch")) - 1]


def _next_stage(size: Callable[[int], int], stage: Stage, epochs: int) -> int:
    """The first epoch whose batches are larger than those of a stage; sizes never fall. ``epochs`` if there is none."""
    last, reach = stage.epoch, 1
    while (beyond := min(last + reach, epochs)) < epochs and size(beyond) == stage.size:
        last, reach = beyond, 2 * reach
    return bisect_right(range(last, beyond), stage.size, key=size) + last


def settled_at(turns: Sequence[Turn[Any]], total: int) -> int:
    """The steps of a training before its last phase, in which no turn begins any more: 0 where there is only one.

    >>> from deepcanon.core import Absorb
    >>> settled_at([Absorb(print), Absorb(print, share=(0.5, 1.0))], 100)
    50
    """
    starts = [start for turn in turns for start, end in [turn.share] if start < end]
    return int(max(starts, default=0.0) * total)

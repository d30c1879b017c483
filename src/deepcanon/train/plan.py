"""The plan of a training: which steps each epoch has, and how large its batches are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from deepcanon.core import Turn
from deepcanon.core.settings import Settings
from deepcanon.optim import batch_size_schedule


class Plan:
    """The epochs of a training on so many examples, known before it begins: only the number of steps is a state.

    The last epoch is cut where the settings count steps.

    >>> from deepcanon.core import Recipe
    >>> from deepcanon.train.settings import resolve_settings
    >>> plan = Plan(100, resolve_settings(Recipe(batch_size=30, epochs=3), batch_size_schedule="exponential"))
    >>> plan.sizes, plan.starts, plan.total
    ([30, 60, 100], [0, 4, 6, 7], 7)
    """

    def __init__(self, examples: int, settings: Settings) -> None:
        size = batch_size_schedule(settings["batch_size_schedule"])
        self.sizes: list[int] = []
        self.starts = [0]
        """The steps done before each epoch, and at last those of the whole training."""
        steps, first = settings["steps"], settings["batch_size"]
        while len(self.sizes) < settings["epochs"] if steps is None else self.starts[-1] < steps:
            self.sizes.append(min(size(len(self.sizes), first), max(examples, first)))
            self.starts.append(self.starts[-1] + -(-examples // self.sizes[-1]))
        self.total = self.starts[-1] = self.starts[-1] if steps is None else steps

    @property
    def epochs(self) -> int:
        return len(self.sizes)

    def epoch_before(self, step: int) -> int:
        """The epoch of the last of so many steps, counted from 1."""
        return bisect_left(self.starts, step)

    def epoch_after(self, step: int) -> int:
        """The epoch of the step that follows so many, counted from 0."""
        return bisect_right(self.starts, step) - 1


def settled_at(turns: Sequence[Turn[Any]], total: int) -> int:
    """The steps of a training before its last phase, in which no turn begins any more: 0 where there is only one.

    >>> from deepcanon.core import Absorb
    >>> settled_at([Absorb(print), Absorb(print, share=(0.5, 1.0))], 100)
    50
    """
    starts = [start for turn in turns for start, end in [turn.share] if start < end]
    return int(max(starts, default=0.0) * total)

"""The course of a training: which steps each epoch has, and how large its batches are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from deepcanon.optim import batch_size_schedule
from deepcanon.train.settings import Settings


class Course:
    """The epochs of a training on so many examples, known before it begins: only the number of steps is a state.

    The last epoch is cut where the settings count steps.

    >>> from deepcanon.core import Recipe
    >>> course = Course(100, Settings.resolve(Recipe(batch_size=30, epochs=3), batch_size_schedule="exponential"))
    >>> course.sizes, course.starts, course.total
    ([30, 60, 100], [0, 4, 6, 7], 7)
    """

    def __init__(self, examples: int, settings: Settings) -> None:
        size = batch_size_schedule(settings.batch_size_schedule)
        self.sizes: list[int] = []
        self.starts = [0]
        """The steps done before each epoch, and at last those of the whole training."""
        while len(self.sizes) < settings.epochs if settings.steps is None else self.starts[-1] < settings.steps:
            largest = max(examples, settings.batch_size)
            self.sizes.append(min(size(len(self.sizes), settings.batch_size), largest))
            self.starts.append(self.starts[-1] + -(-examples // self.sizes[-1]))
        self.total = self.starts[-1] = settings.steps if settings.steps is not None else self.starts[-1]

    @property
    def epochs(self) -> int:
        return len(self.sizes)

    def epoch_before(self, step: int) -> int:
        """The epoch of the last of so many steps, counted from 1."""
        return bisect_left(self.starts, step)

    def epoch_after(self, step: int) -> int:
        """The epoch of the step that follows so many, counted from 0."""
        return bisect_right(self.starts, step) - 1

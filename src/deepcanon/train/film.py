"""The film of a training: the same pictures at a dozen steps, with the same random numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from deepcanon.core import Terms
from deepcanon.core.checks import at_least
from deepcanon.train import randomness
from deepcanon.train.observers import Observer, moment
from deepcanon.train.progress import say

if TYPE_CHECKING:
    from deepcanon.train.trainer import Trainer

FRAMES = 12
FOLDER = "film"
"""The folder of the frames, among the pictures of a run."""


class Film(Observer):
    """An observer that draws samples, reconstructions, decisions and texts at steps whose distances grow.

    The first frame is that of the untrained model, the last that of the last step. The random numbers of all are the
    same, so that what changes from one to the next is what was learned. They are files ``pictures/film/NAME-STEP.png``
    of the run's folder, and each has a record of the kind ``picture`` in its log. The training ends with the same bits
    as without.

    Arguments:
        frames: How many there are, at most; three or more.
    """

    def __init__(self, frames: int = FRAMES) -> None:
        at_least(3, frames=frames)
        self.frames = frames
        self.steps: list[int] = []

    def begin(self, trainer: Trainer) -> None:
        self.steps = frame_steps(trainer.total, self.frames)
        if trainer.step == 0:
            self._shoot(trainer)

    def step(self, trainer: Trainer, terms: Terms) -> None:
        if trainer.step in self.steps:
            self._shoot(trainer)

    def _shoot(self, trainer: Trainer) -> None:
        if trainer.run is None or not trainer.world.first or not _finite(trainer):
            return
        from deepcanon.pictures.run_pictures import film_figures  # matplotlib is slow to import
        from deepcanon.pictures.style import save

        folder = trainer.run.pictures / FOLDER
        try:
            with randomness.kept(), trainer.average.in_place():
                figures = film_figures(trainer.model, trainer.data, trainer.settings["seed"])
        except Exception as error:  # a picture that cannot be drawn must not cost the training
            if not trainer.quiet:
                say(f"the film has no frame of step {trainer.step}: {type(error).__name__}: {error}")
            return
        for name, figure in figures.items():
            save(figure, folder / f"{name}-{trainer.step}.png")
            figure.clear()
            trainer.log.write(trainer, {"kind": "picture", **moment(trainer), "name": name})


def frame_steps(total: int, frames: int = FRAMES) -> list[int]:
    """The steps of the frames: 0, and others spaced evenly by their logarithms up to the last.

    >>> frame_steps(1000, 8)
    [0, 1, 3, 10, 32, 100, 316, 1000]
    """
    return sorted({0, *(round(total ** (place / (frames - 2))) for place in range(frames - 1))})


def frames_in(pictures: Path) -> dict[str, list[int]]:
    """The steps of the frames that are in the folder of a run's pictures, by the name of the film."""
    found: dict[str, list[int]] = {}
    for file in (pictures / FOLDER).glob("*-*.png"):
        name, _, step = file.stem.rpartition("-")
        if step.isdecimal():
            found.setdefault(name, []).append(int(step))
    return {name: sorted(steps) for name, steps in sorted(found.items())}


def _finite(trainer: Trainer) -> bool:
    return all(bool(torch.isfinite(weight).all()) for weight in trainer.model.parameters())

"""Turns: the ways in which a model learns from a batch.

The trainer knows nothing of particular models. A model lists its turns, and for each batch the trainer plays those
that are due: one for a classifier, two for the players of a GAN, one without gradient for a Hopfield net.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Generic, TypeVar

from torch import Tensor, nn

from deepcanon.core.batch import AnyBatch
from deepcanon.core.errors import UsageError

B = TypeVar("B", bound=AnyBatch)

Terms = dict[str, Tensor]
"""Named 0-d tensors, means over examples; the sum of a loss's terms is what is minimized."""


@dataclass(eq=False)
class Turn(Generic[B]):
    """What all turns share.

    ``every`` plays the turn at each such step only (the slower player of a game); ``share`` limits it to a part of the
    training, (0, 0.5) being the first half.
    """

    _: KW_ONLY
    name: str = "main"
    every: int = 1
    share: tuple[float, float] = (0.0, 1.0)

    def due(self, step: int, total: int) -> bool:
        """Whether the turn is played at ``step`` (counted from 1) of ``total``."""
        start, end = self.share
        return step % self.every == 0 and start * total < step <= end * total


@dataclass(eq=False)
class Descend(Turn[B]):
    """One step of gradient descent on ``loss`` over ``parameters``; no other parameter requires grad meanwhile.

    ``gradient`` fills ``.grad`` by a rule of its own and returns the terms to log, in place of backpropagation through
    ``loss``. ``after`` runs behind the step (clipping weights, moving averages). ``optimizer`` and ``lr`` differ from
    the run's where a paper asks for it; an ``lr`` the caller gives scales them alike.
    """

    loss: Callable[[B], Terms]
    parameters: Iterable[nn.Parameter]
    _: KW_ONLY
    after: Callable[[], None] | None = None
    gradient: Callable[[B], Terms] | None = None
    optimizer: str | None = None
    lr: float | None = None

    def __post_init__(self) -> None:
        self.parameters = tuple(self.parameters)
        if not self.parameters:
            raise UsageError(f"the turn {self.name!r} descends on no parameter; a step without gradient is an Absorb")


@dataclass(eq=False)
class Absorb(Turn[B]):
    """A step without gradient: ``rule`` sees the whole batch (of all processes) and changes the model by itself."""

    rule: Callable[[B], Terms | None]

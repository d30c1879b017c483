"""Turns: the parameter updates by which a model is trained on a batch.

The trainer has no code for particular models. A model lists its turns, and for each batch the trainer plays those that
are due: one for a classifier, two for the generator and the discriminator of a GAN, one without gradient for a Hopfield
network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Generic, TypeVar

from torch import Tensor, nn

from deepcanon.core.batch import AnyBatch
from deepcanon.core.coordinates import Coordinates
from deepcanon.core.display import Shown
from deepcanon.core.errors import UsageError

B = TypeVar("B", bound=AnyBatch)

Terms = dict[str, Tensor]
"""Named 0-d tensors, means over examples; the sum of a loss's terms is what is minimized."""


@dataclass(eq=False)
class Turn(Shown, Generic[B]):
    """A parameter update, the base of all turns.

    ``every`` plays the turn at every n-th step only (the slower player of a GAN); ``share`` limits it to a part of the
    training, (0, 0.5) being the first half, and ``start`` runs when this part begins (weights are copied, or drawn
    anew). Optimizers take the parameters of a turn once, before the first step, so that ``start`` may change their
    values and not which there are: layers that come later are there from the beginning, outside the earlier turns.
    """

    _: KW_ONLY
    name: str = "main"
    every: int = 1
    share: tuple[float, float] = (0.0, 1.0)
    start: Callable[[], None] | None = None

    def due(self, step: int, total: int) -> bool:
        """Whether the turn is played at ``step`` (counted from 1) of ``total``."""
        start, end = self.share
        return step % self.every == 0 and start * total < step <= end * total

    def begins(self, step: int, total: int) -> bool:
        """Whether ``step`` is the first of the turn's share, played or not."""
        start, end = self.share
        return step - 1 <= start * total < step <= end * total


@dataclass(eq=False)
class Descend(Turn[B]):
    """A step of gradient descent on ``loss`` over ``parameters``; no other parameter requires grad meanwhile.

    ``gradient`` fills ``.grad`` by a rule of its own, in place of backpropagation through ``loss``, and returns a
    function that computes the terms, which is called only where they are logged, before the step. ``after`` runs after
    the step (weight clipping, moving averages). ``optimizer`` and ``lr`` override those of the run where a paper says
    so; an ``lr`` that the caller gives scales them alike. ``coordinates`` are what the optimizer steps on in place of
    the weight and the bias of a layer, unless one of these is frozen or left out.
    """

    loss: Callable[[B], Terms]
    parameters: Iterable[nn.Parameter]
    _: KW_ONLY
    after: Callable[[], None] | None = None
    gradient: Callable[[B], Callable[[], Terms]] | None = None
    optimizer: str | None = None
    lr: float | None = None
    coordinates: Coordinates | None = None

    def __post_init__(self) -> None:
        self.parameters = tuple(self.parameters)
        if not self.parameters:
            raise UsageError(f"the turn {self.name!r} descends on no parameter; a step without gradient is an Absorb")


@dataclass(eq=False)
class Absorb(Turn[B]):
    """A step without gradient: ``rule`` takes the whole batch (of all processes) and updates the model itself."""

    rule: Callable[[B], Terms | None]

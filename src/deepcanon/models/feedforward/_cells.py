"""Universal approximators built on a grid: one basis function per cell, weighted by the height of the cell."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from deepcanon.core import Absorb, DataError, Labeled, Recipe, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.models._predictor import Predictor

MOST = 2**16
"""The largest number of cells: it grows exponentially with the features."""


def enough_cells(lipschitz: float, epsilon: float, features: int) -> int:
    r"""The number of cells per axis that bounds the error on the unit cube by epsilon, for any L-Lipschitz function.

    A cell of side 1/K has no point farther from its center than :math:`\sqrt n / (2K)`, so
    :math:`K = \lceil \sqrt n L / (2 \varepsilon) \rceil`; in the plane that is :math:`L / (\sqrt 2 \varepsilon)`.

    >>> enough_cells(2.0, 0.1, features=1), enough_cells(2.0, 0.1, features=2)
    (10, 15)
    """
    if not (lipschitz > 0 and epsilon > 0):
        raise UsageError(f"lipschitz and epsilon must be positive (got {lipschitz} and {epsilon})")
    return max(1, math.ceil(math.sqrt(features) * lipschitz / (2 * epsilon)))


class Cells(Predictor):
    """A network with one hidden unit, or a few, for each cell of a grid; its output weights are set without gradients.

    From data the height of a cell is the mean of the targets in it, or the log-frequencies of the classes; from a
    function it is the value at the center of the cell.
    """

    recipe: ClassVar[Recipe] = Recipe(batch_size=65536, epochs=1)

    low: Tensor
    high: Tensor
    sums: Tensor
    counts: Tensor

    def __init__(self, features: int, classes: int | None, targets: int | None, cells: int) -> None:
        super().__init__()
        at_least(1, features=features, cells=cells)
        outputs = self._outputs_for(classes, targets, None)
        self.features = features
        self.cells = cells
        self.outputs = outputs
        count = cells**features
        if count > MOST:
            raise UsageError(
                f"{cells} cells per axis are {count} in {features} dimensions: take fewer (at most {MOST})"
            )
        self.heights = nn.Parameter(torch.zeros(count, outputs), requires_grad=False)
        self.register_buffer("low", torch.zeros(features))
        self.register_buffer("high", torch.ones(features))
        self.register_buffer("sums", torch.zeros(count, outputs, dtype=torch.float64))
        self.register_buffer("counts", torch.zeros(count, dtype=torch.float64))

    @classmethod
    def approximating(
        cls, function: Callable[[Tensor], Tensor], features: int, *, lipschitz: float, epsilon: float
    ) -> Self:
        """The network that is within epsilon of a Lipschitz function of the unit cube, (B, features) to (B, 1)."""
        model = cls(features=features, targets=1, cells=enough_cells(lipschitz, epsilon, features))  # type: ignore[call-arg]
        return model.double().build(function)

    @abstractmethod
    def units(self, x: Tensor) -> Tensor:
        """The hidden units, which weigh the heights of the cells at x: (B, features) to (B, cells)."""

    def forward(self, x: Tensor) -> Tensor:
        """The means of the targets, (B, targets), or the logits of the classes, (B, classes)."""
        return self.units(flat(x, self.features)) @ self.heights

    def turns(self) -> Sequence[Turn[Labeled]]:
        return [Absorb(self.absorb)]

    @torch.no_grad()
    def prepare(self, data: Iterable[Labeled]) -> None:
        """Place the grid over the range of the data."""
        parts = [flat(batch.x, self.features) for batch in data]
        low = torch.stack([part.amin(0) for part in parts]).amin(0)
        high = torch.stack([part.amax(0) for part in parts]).amax(0)
        self.low.copy_(low)
        self.high.copy_(torch.where(high > low, high, low + 1))

    @torch.no_grad()
    def absorb(self, batch: Labeled) -> Terms:
        """Add the examples of a batch, and set the heights from all examples seen so far."""
        targets = batch.y if self.classes is None else nn.functional.one_hot(batch.y, self.classes)
        if targets.shape != (len(batch), self.outputs):
            raise DataError(f"the targets must have the shape {(len(batch), self.outputs)}, got {tuple(batch.y.shape)}")
        cell = self._cell_of(flat(batch.x, self.features))
        self.sums.index_add_(0, cell, targets.to(self.sums.dtype))
        self.counts.index_add_(0, cell, torch.ones_like(cell, dtype=self.counts.dtype))
        counts = self.counts.unsqueeze(1)
        if self.classes is not None:
            heights = ((self.sums + 1) / (counts + self.classes)).log()  # add-one smoothing
        else:  # a cell without examples gets the mean of all examples
            heights = torch.where(counts > 0, self.sums / counts.clamp_min(1), self.sums.sum(0) / counts.sum())
        self.heights.copy_(heights)
        return self.loss(batch)

    @torch.no_grad()
    def build(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Give each cell the value of a function at its center; nothing is trained."""
        self.heights.copy_(function(self.centers()))
        return self

    def centers(self) -> Tensor:
        """The centers of all cells, (cells, features); the last feature runs fastest."""
        return torch.cartesian_prod(*self.middles()).reshape(-1, self.features)

    def middles(self) -> Tensor:
        """The centers along each axis, (features, K)."""
        steps = (torch.arange(self.cells, device=self.low.device, dtype=self.low.dtype) + 0.5) / self.cells
        return self.low.unsqueeze(1) + (self.high - self.low).unsqueeze(1) * steps

    def widths(self) -> Tensor:
        """The sides of a cell, (features,)."""
        return (self.high - self.low) / self.cells

    def _cell_of(self, x: Tensor) -> Tensor:
        index = ((x - self.low) / self.widths()).floor().long().clamp(0, self.cells - 1)  # (B, features)
        powers = self.cells ** torch.arange(self.features - 1, -1, -1, device=x.device)
        return (index * powers).sum(1)

"""The engine of linear models with a convex loss: full batches, and steps in standardized features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from deepcanon.core import Descend, Labeled, Model, Recipe, Terms, Turn
from deepcanon.core.checks import flat

CONSTANT = 1e-6
"""A feature whose standard deviation is a smaller share of its mean is constant in single precision."""
BATCH = 65536
"""The batch size, which holds all examples of most data sets; with mini-batches each step would undo the last."""


def convex(epochs: int, iterations: int) -> Recipe:
    """L-BFGS with a line search, at most so many ``iterations`` in each epoch."""
    options = f"max_iter={iterations},tolerance_grad=1e-12,tolerance_change=0,line_search_fn=strong_wolfe"
    return Recipe(optimizer=f"lbfgs:{options}", lr=1.0, batch_size=BATCH, epochs=epochs, keep_weights="last")


class StandardizedLinear(nn.Linear):
    r"""A linear layer, initialized to zero, on which an optimizer steps as if its inputs were standardized.

    With the mean :math:`\mu` and the standard deviation :math:`\sigma` of each input, the coordinates of :math:`W` and
    :math:`b` are :math:`V = W \sigma` and :math:`c = b + W \mu`, since :math:`W x + b = V (x - \mu) / \sigma + c`.
    Inputs are centered before they are multiplied: where they are far from zero, rounding would swamp them else.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x - self.mean, self.weight, self.bias + self.weight @ self.mean)

    def measure(self, rows: Callable[[], Iterable[Tensor]]) -> None:
        """Take the mean and the standard deviation from these rows, which are gone through twice."""
        mean, std = moments(rows)
        constant = std <= CONSTANT * mean.abs()  # such a feature has no scale of its own
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(constant, mean.abs().clamp_min(1), std))

    def coordinates_of(self, values: Sequence[Tensor]) -> list[Tensor]:
        weight, bias = values
        return [weight * self.scale, bias + weight @ self.mean]

    def values_at(self, coordinates: Sequence[Tensor]) -> list[Tensor]:
        weight = coordinates[0] / self.scale
        return [weight, coordinates[1] - weight @ self.mean]

    def gradient_of(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        of_weight, of_bias = gradients
        return [(of_weight - of_bias.outer(self.mean)) / self.scale, of_bias]


class Convex(Model[Labeled]):
    """A model of one linear layer with a convex loss, whose optimum does not depend on how features are scaled."""

    features: int
    linear: nn.Linear

    def _build(self, features: int, outputs: int) -> None:
        self.features = features
        self.linear = StandardizedLinear(features, outputs)

    def prepare(self, data: Iterable[Labeled]) -> None:
        """Measure the mean and the standard deviation of every feature, which changes no output."""
        super().prepare(data)
        if isinstance(self.linear, StandardizedLinear):  # a method may have put another in its place
            self.linear.measure(lambda: (flat(batch.x, self.features) for batch in data))

    def turns(self) -> Sequence[Turn[Labeled]]:
        return self._descents(self.loss)

    def _descents(self, loss: Callable[[Labeled], Terms]) -> Sequence[Turn[Labeled]]:
        """Descent on this loss in the coordinates of the layer."""
        own = self.linear if isinstance(self.linear, StandardizedLinear) else None
        return [Descend(loss, self.parameters(), coordinates=own)]


def moments(rows: Callable[[], Iterable[Tensor]]) -> tuple[Tensor, Tensor]:
    """The mean and the standard deviation of each column, in double precision; the rows are gone through twice.

    >>> moments(lambda: [torch.tensor([[1.0, 4.0], [3.0, 4.0]])])
    (tensor([2., 4.], dtype=torch.float64), tensor([1., 0.], dtype=torch.float64))
    """
    count, total = 0, torch.zeros((), dtype=torch.float64)
    for part in rows():
        count, total = count + len(part), total + part.double().sum(0)
    mean = total / count
    squares = torch.zeros_like(mean)
    for part in rows():
        squares += (part.double() - mean).square().sum(0)
    return mean, (squares / count).sqrt()

"""Gradient checks by finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from deepcanon.tensor.autodiff import grad
from deepcanon.tensor.errors import GradientError
from deepcanon.tensor.tensor import Tensor, plain


class Worst(NamedTuple):
    """The entry at which a derivative differs most from its finite difference."""

    order: int
    argument: int
    place: tuple[int, ...]
    derivative: float
    difference: float

    @property
    def error(self) -> float:
        """The difference of both, relative to their size where that is above 1."""
        return abs(self.derivative - self.difference) / max(1.0, abs(self.derivative), abs(self.difference))

    def __str__(self) -> str:
        return (
            f"derivative of order {self.order} by argument {self.argument} at {self.place}: {self.derivative:.9g}, "
            f"by finite differences {self.difference:.9g}, relative error {self.error:.1e}"
        )


def check_gradients(
    f: Callable[..., Any], *args: Any, order: int = 2, tolerance: float = 1e-6, step: float = 1e-5, seed: int = 0
) -> Worst:
    """Compare derivatives with central differences, and raise at the worst entry if they differ.

    The value of f, of any shape, is weighed by random numbers and summed; the second order is the first order of the
    derivative, weighed in the same way. The arguments are taken in float64: in float32 differences say nothing.

    >>> check_gradients(np.tanh, [0.1, 0.2]).error < 1e-6
    True

    Arguments:
        f: A function of tensors.
        args: Where to check it.
        order: 1 for the derivative alone, 2 for the second one too.
        tolerance: The largest relative error that passes.
        step: How far the differences go to each side.
        seed: The seed of the weights.
    """
    points = [np.array(plain(a), dtype=np.float64) for a in args]
    generator = np.random.default_rng(seed)
    weights = generator.uniform(0.5, 1.5, np.shape(plain(f(*points))))
    numbers = tuple(range(len(points)))

    def value(*xs: Any) -> Tensor:
        return (f(*xs) * weights).sum()  # type: ignore[no-any-return]

    worst = _compare(value, points, 1, step)
    if order > 1:
        turns = [generator.uniform(0.5, 1.5, x.shape) for x in points]

        def slope(*xs: Any) -> Any:
            slopes = grad(value, numbers)(*xs)
            return sum((d * turn).sum() for d, turn in zip(slopes, turns, strict=True))

        worst = max(worst, _compare(slope, points, 2, step), key=lambda entry: entry.error)
    if not worst.error <= tolerance:
        raise GradientError(f"the {worst}; at most {tolerance:.1e} was expected: look at the rule of this operation")
    return worst


def _compare(f: Callable[..., Tensor], points: list[np.ndarray[Any, Any]], order: int, step: float) -> Worst:
    worst = Worst(order, 0, (), 0.0, 0.0)
    slopes = grad(f, tuple(range(len(points))))(*points)
    for number, (x, d) in enumerate(zip(points, slopes, strict=True)):
        for place in np.ndindex(x.shape):
            there = []
            for sign in (1, -1):
                moved = [p.copy() for p in points]
                moved[number][place] += sign * step
                there.append(float(plain(f(*moved))))
            entry = Worst(order, number, place, float(d.array[place]), (there[0] - there[1]) / (2 * step))
            if not entry.error <= worst.error:
                worst = entry
    return worst

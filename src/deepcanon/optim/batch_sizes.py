r"""Batch-size schedules: the size of the mini-batches of each epoch, as a pure function of the epoch.

The gradient noise of a step is proportional to :math:`\epsilon / B`, so growing the batch size :math:`B` reduces it as
decaying the learning rate :math:`\epsilon` does, in fewer and fewer steps per epoch. With :math:`B_0` the initial batch
size, :math:`e` the epochs done before this one, and a growth ``by`` :math:`b` that comes ``every`` :math:`k` epochs:

.. math::
    \text{linear}\; B_0 + b \lfloor e / k \rfloor \qquad
    \text{exponential}\; B_0\, b^{\lfloor e / k \rfloor}

Both take ``most``, the largest batch size.

References:
    | Don't decay the learning rate, increase the batch size (Smith et al., 2018), https://arxiv.org/abs/1711.00489
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deepcanon.core import UsageError
from deepcanon.core.options import check_options, choose, parse

BatchSize = Callable[[int, int], int]
"""A schedule: the batch size of an epoch, counted from 0, given that of the first epoch."""

ENOUGH = 2**62
"""More than any data set has."""


def batch_size_schedule(text: str) -> BatchSize:
    """The batch-size schedule of this name with its options.

    >>> size = batch_size_schedule("exponential:every=2,most=300")
    >>> [size(epoch, 64) for epoch in range(8)]
    [64, 64, 128, 128, 256, 256, 300, 300]
    """
    name, options = parse(text)
    choose("batch-size schedule", name, BATCH_SIZES)
    shape = BATCH_SIZES[name]
    check_options(f"the batch-size schedule {name}", shape, options, own=("epoch", "first"))
    numbers: dict[str, Any] = options
    for option in numbers.keys() & {"every", "most"}:
        if type(numbers[option]) is not int or numbers[option] < 1:
            raise UsageError(
                f"{option} of a batch-size schedule is a whole number of at least 1, got {numbers[option]!r}"
            )
    if type(numbers.get("by", 1)) not in (int, float):
        raise UsageError(f"the batch-size schedule {name} needs a number for by, got {numbers['by']!r}")
    shape(0, 1, **numbers)  # a value out of range is refused now, not in some later epoch
    return lambda epoch, first: shape(epoch, first, **numbers)


def constant(epoch: int, first: int) -> int:
    return first


def linear(epoch: int, first: int, by: float = 32, every: int = 1, most: int | None = None) -> int:
    if by < 0:
        raise UsageError(f"the batch-size schedule linear grows by at least 0 examples, got by={by}")
    return _capped(first + by * (epoch // every), first, most)


def exponential(epoch: int, first: int, by: float = 2, every: int = 1, most: int | None = None) -> int:
    if by < 1:
        raise UsageError(f"the batch-size schedule exponential grows by a factor of at least 1, got by={by}")
    try:
        return _capped(first * float(by) ** (epoch // every), first, most)
    except OverflowError:
        return _capped(ENOUGH, first, most)


BATCH_SIZES: dict[str, Callable[..., int]] = {"constant": constant, "linear": linear, "exponential": exponential}


def _capped(size: float, first: int, most: int | None) -> int:
    """The size rounded, and at most ``most``, but never below the initial one."""
    grown = max(first, round(min(size, ENOUGH)))
    return grown if most is None else min(grown, max(most, first))

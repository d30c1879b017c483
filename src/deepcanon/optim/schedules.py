r"""Learning-rate schedules: the factor of the learning rate at each step, as a pure function of the step.

With :math:`\tau` the steps done before this one and :math:`T` the steps of the whole training:

.. math::
    \text{linear}\;& 1 - (1 - e)\min(\tau / K, 1) \qquad
    \text{power}\; (1 + \tau / s)^{c},\; c < 0 \qquad
    \text{exponential}\; c^{\tau / s},\; 0 < c < 1 \\
    \text{cosine}\;& e + \tfrac{1 - e}{2} (1 + \cos(\pi \tau / T)) \qquad
    \text{staircase}\; c^{\lfloor n \tau / T \rfloor},\; 0 < c < 1

Every schedule takes ``warmup``, a number of steps over which the learning rate first rises linearly from zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from deepcanon.core import UsageError
from deepcanon.core.options import check_options, choose, parse

Factor = Callable[[int, int], float]
"""A schedule: the factor of the learning rate at a step, counted from 1, of a total."""


def schedule(text: str) -> Factor:
    """The learning-rate schedule of this name with its options.

    >>> factor = schedule("linear:end=0.5")
    >>> [round(factor(step, 4), 3) for step in (1, 2, 3, 4)]
    [1.0, 0.875, 0.75, 0.625]
    """
    name, options = parse(text)
    choose("schedule", name, SCHEDULES)
    shape = SCHEDULES[name]
    check_options(f"the schedule {name}", shape, options.keys() - {"warmup"}, own=("done", "total"))
    warmup = _warmup(options.pop("warmup", 0))
    numbers: dict[str, Any] = {option: _number(name, option, value) for option, value in options.items()}
    shape(0, 1, **numbers)  # a value out of range is refused now, not at the first step

    def factor(step: int, total: int) -> float:
        if step <= warmup:
            return step / warmup
        return shape(step - warmup - 1, max(1, total - warmup), **numbers)

    return factor


def constant(done: int, total: int) -> float:
    return 1.0


def linear(done: int, total: int, end: float = 0.0, over: float = 1.0) -> float:
    """Linear decay to ``end`` over this share of the training, then constant."""
    _check_end("linear", end)
    if not 0 < over <= 1:
        raise UsageError(f"the schedule linear falls over a share of the training in (0, 1], got over={over}")
    return 1 - (1 - end) * min(done / (over * total), 1.0)


def power(done: int, total: int, exponent: float = -0.5, scale: float = 100.0) -> float:
    """Power-law decay; ``scale`` is in steps."""
    if exponent >= 0 or scale <= 0:
        raise UsageError(f"the schedule power falls for exponent < 0 and scale > 0, got {exponent} and {scale}")
    return float((1 + done / scale) ** exponent)


def exponential(done: int, total: int, rate: float = 0.1, scale: float | None = None) -> float:
    """Exponential decay; ``scale`` is in steps; without it the factor falls to ``rate`` over the whole training."""
    if not 0 < rate < 1 or (scale is not None and scale <= 0):
        raise UsageError(f"the schedule exponential falls for 0 < rate < 1 and scale > 0, got {rate} and {scale}")
    return float(rate ** (done / (scale or total)))


def staircase(done: int, total: int, rate: float = 0.1, stages: float = 3) -> float:
    """Step decay: multiplied by ``rate`` at the end of each of so many equally long stages but the last."""
    if not 0 < rate < 1 or stages < 1 or stages != int(stages):
        raise UsageError(
            f"the schedule staircase falls for 0 < rate < 1 in a whole number of stages, got {rate} and {stages}"
        )
    return float(rate ** (int(stages) * done // total))


def cosine(done: int, total: int, end: float = 0.0) -> float:
    _check_end("cosine", end)
    return end + (1 - end) / 2 * (1 + math.cos(math.pi * min(done / total, 1.0)))


def one_cycle(done: int, total: int, peak: float = 0.3, start: float = 0.04, end: float = 4e-6) -> float:
    """The one-cycle policy: up from ``start`` to 1 over the share ``peak`` of the training, then down to ``end``.

    References:
        | Super-convergence: very fast training of neural networks using large learning rates (Smith and Topin, 2018),
          https://arxiv.org/abs/1708.07120
    """
    _check_end("one_cycle", min(start, end))
    if not 0 < peak < 1:
        raise UsageError(f"the schedule one_cycle peaks inside the training, 0 < peak < 1, got {peak}")
    top, last = peak * total - 1, total - 1
    if done < top:
        return _cosine_between(start, 1.0, done / top)
    return _cosine_between(1.0, end, (done - top) / max(last - top, 1e-12))


def warm_up(done: int, total: int, steps: float = 100.0) -> float:
    return min(1.0, (done + 1) / steps) if steps > 0 else 1.0


SCHEDULES: dict[str, Callable[..., float]] = {
    "constant": constant,
    "linear": linear,
    "power": power,
    "exponential": exponential,
    "staircase": staircase,
    "cosine": cosine,
    "one_cycle": one_cycle,
    "warm_up": warm_up,
}


def _cosine_between(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * min(share, 1.0)))


def _check_end(name: str, end: float) -> None:
    if end < 0:
        raise UsageError(f"the schedule {name} cannot end below zero, got {end}")


def _number(name: str, option: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"the schedule {name} needs a number for {option}, got {value!r}")
    return value


def _warmup(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"warmup is a number of steps, got {value!r}")
    return value

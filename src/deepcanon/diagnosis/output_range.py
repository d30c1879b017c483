"""The range of a model's end: which outputs it can give, whatever comes out of its last layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.diagnosis.anatomy import reached, recorded

SCALES = (0.1, -0.1, 1.0, -1.0, 10.0, -10.0, 100.0, -100.0, 1e3, -1e3, 1e4, -1e4)
"""The sizes of the numbers that are put in place of the last layer's output."""

BOUNDED = 1.01
"""An end is bounded where ten times as large numbers lead no farther than by this factor."""

WHOLE = (-torch.inf, torch.inf)


def range_of_end(model: nn.Module, call: Callable[[], Any], output: Tensor) -> tuple[float, float]:
    """The lowest and the highest output that numbers of any size in place of the last layer's output lead to.

    What follows the last layer must depend on its numbers everywhere, and have no parameters, which could widen it;
    else nothing is said: the whole line.
    """
    with torch.no_grad(), recorded(model) as calls:
        call()
    layers = [
        each for each in calls if isinstance(each.output, Tensor) and next(each.module.parameters(), None) is not None
    ]
    if not layers:
        return WHOLE
    last, shape = layers[-1].module, layers[-1].output
    numbers = torch.randn(shape.shape, generator=torch.Generator().manual_seed(0), dtype=shape.dtype)
    found = []
    for scale in SCALES:
        free = scale * numbers
        hook = last.register_forward_hook(lambda _, inputs, output, free=free: free)
        try:
            given = call()
        finally:
            hook.remove()
        if not isinstance(given, Tensor) or given.shape != output.shape or (given.requires_grad and reached(given)):
            return WHOLE
        found.append(given.detach().double())
    if not bool((torch.stack(found).amax(0) > torch.stack(found).amin(0)).all()):
        return WHOLE
    low, high = -_bound([-each for each in found]), _bound(found)
    return low, high


def _bound(found: list[Tensor]) -> float:
    """The largest value, where the last scale leads no farther than the one before."""
    before, last = (float(torch.stack(pair).max()) for pair in (found[-4:-2], found[-2:]))
    middle = float(torch.stack(found).mean())
    return max(float(each.max()) for each in found) if last - middle <= BOUNDED * (before - middle) else torch.inf

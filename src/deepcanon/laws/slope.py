"""Gradients compared with finite differences."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from deepcanon.laws.outcome import Measured
from deepcanon.laws.probe import seeded

STEP = 1e-6
"""The step of the central differences to either side, in double precision."""


def slopes(module: nn.Module, objective: Callable[[], Tensor]) -> Measured | None:
    """The gap between the gradient of ``objective`` in each parameter and central differences along a random line.

    The module is in double precision, and the objective is deterministic.

    >>> layer = nn.Linear(1, 1).double()
    >>> gap, bound, _ = slopes(layer, lambda: layer.weight.square().sum() + layer.bias.detach().sum())
    >>> gap > bound  # the bias has an effect but gets no gradient
    True
    """
    named = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if not named:
        return None
    gradients = torch.autograd.grad(objective(), list(named.values()), allow_unused=True)
    random = seeded(0)
    worst, where = 0.0, ""
    for (name, parameter), gradient in zip(named.items(), gradients, strict=True):
        line = torch.randn(parameter.shape, dtype=torch.float64, generator=random)
        line /= line.norm().clamp_min(1e-12)
        slope = _slope(objective, parameter, line)
        claimed = 0.0 if gradient is None else float((gradient * line).sum())
        gap = abs(slope - claimed) / (1e-3 + abs(slope))
        if not gap <= worst:
            worst, where = gap, f"; the worst is {name}: slope {slope:.6g}, gradient {claimed:.6g}"
    return worst, 1e-3, f"{len(named)} parameters{where}"


@torch.no_grad()
def _slope(objective: Callable[[], Tensor], parameter: Tensor, line: Tensor) -> float:
    there = parameter.clone()
    ends = []
    for side in (1, -1):
        parameter.copy_(there + side * STEP * line)
        ends.append(float(objective()))
    parameter.copy_(there)
    return (ends[0] - ends[1]) / (2 * STEP)

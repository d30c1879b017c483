"""Learning rates on copies: the range test, and how far a step moves the weights."""

from __future__ import annotations

import math
import statistics
from typing import Any

import torch

from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.patient import Patient
from deepcanon.diagnosis.repairs import times
from deepcanon.diagnosis.trial import UNCHANGED, Change

STEPS, FEWEST, LOWEST, HIGHEST = 90, 40, 1e-4, 1e4
"""The range test goes through so many steps, fewer of a slow training, from so small a multiple of a rate to so large a
one."""

SEEN = 1e-7
"""Steps that are a smaller share of the weights are lost in rounding."""

SMOOTHED, EXPLODED = 0.8, 3.0
"""The loss is smoothed by this factor; at so many times its first value it has exploded."""


def range_test(patient: Patient, around: float) -> dict[str, Any]:
    """The loss at rising rates on a copy: the rates, the losses, where it explodes, and the interval that suits.

    ``around`` is a rate that does well: the range around one that is far too low or high may miss it.

    Smith, Cyclical learning rates for training neural networks, 2017, https://arxiv.org/abs/1506.01186. The interval
    ends at a third of the rate at which the smoothed loss begins to rise, and begins a hundred times lower.
    """
    steps = max(FEWEST, min(STEPS, patient.reference.asked))
    growth = (HIGHEST / LOWEST) ** (1 / (steps - 1))

    def rising(optimizer: torch.optim.Optimizer, number: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = around * LOWEST * growth ** (number - 1)

    course = patient.train(steps, change=Change(f"range test around {around:g}", on_step=rising))
    rates = [around * LOWEST * growth**number for number in range(len(course.losses))]
    smooth: list[float] = []
    for loss in course.losses:
        smooth.append(loss if not smooth else SMOOTHED * smooth[-1] + (1 - SMOOTHED) * loss)
    first = course.losses[0] if course.losses else math.nan
    lowest = min((loss for loss in smooth if math.isfinite(loss)), default=math.nan)
    at = smooth.index(lowest) if lowest in smooth else 0
    explodes = next((r for r, s in zip(rates[at:], smooth[at:], strict=True) if not s <= EXPLODED * abs(first)), None)
    return {
        "rates": [float(f"{rate:.4g}") for rate in rates],
        "losses": [round(loss, 5) if math.isfinite(loss) else None for loss in course.losses],
        "explodes_at": explodes,
        "suggested": [rates[at] / 300, rates[at] / 3] if rates else None,
    }


def update_ratio(patient: Patient, steps: int = 5, change: Change = UNCHANGED) -> float | None:
    """How far one step moves a weight matrix that is trained, by its norm: the median over the matrices."""
    course = patient.train(steps, change=change)
    before = dict(patient.model.named_parameters())
    groups = [] if patient.optimizer is None else patient.optimizer.param_groups
    held = {id(p) for group in groups for p in group["params"]}
    ratios = []
    for name, after in course.model.named_parameters():
        start = before[name].detach()
        size = float(start.norm())
        trained = after.requires_grad and (not held or id(before[name]) in held)
        if trained and after.ndim >= 2 and size > 0:
            ratios.append(float((after.detach() - start).norm()) / size / steps)
    return statistics.median(ratios) if ratios else None


def factors_of_healthy_steps(patient: Patient, beyond: float) -> list[float]:
    """What a rate is multiplied by for steps of a healthy size: a tenth of the largest, and the largest.

    Only factors above ``beyond``: powers of ten around the training's own rate find nothing near one that is far too
    low. A step that rounding swallows is measured at a higher rate.
    """
    largest = thresholds.of("learning_rate", "update").healthy_high
    for factor in (1.0, 1e3, 1e6):
        update = update_ratio(patient, change=times(factor) if factor > 1 else UNCHANGED)
        if update is not None and SEEN < update < math.inf:
            found = (float(f"{share * factor * largest / update:.2g}") for share in (0.1, 1.0))
            return [each for each in found if each > beyond]
    return []

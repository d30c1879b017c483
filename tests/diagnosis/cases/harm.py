"""The harm that a fault does: how the broken training ends next to its healthy twin."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch

import deepcanon as dc
from tests.diagnosis.cases.case import Case, Patient, Setting, train

HURT = 0.8
"""A fault has hurt if less than this share of what the healthy twin learns is left."""


class Harm(NamedTuple):
    """The scores of the healthy twin and of the broken training, that of a model which knows nothing, and any error."""

    healthy: float
    broken: float
    chance: float
    error: str = ""

    @property
    def left(self) -> float:
        """Which share of what the healthy twin learns is left."""
        return (self.broken - self.chance) / max(abs(self.healthy - self.chance), 1e-9)

    @property
    def hurts(self) -> bool:
        return bool(self.error) or not math.isfinite(self.broken) or self.left < HURT


def harm(case: Case, seed: int = 0) -> Harm:
    """Train the broken patient and its healthy twin, and score both as the fault says; what the twin has learned is
    what may be lost."""
    (start, twin), broken = learned(case.setting, seed), case.patient(seed)
    healthy = broken.score(twin)
    chance = broken.score(start) if broken.chance is None else broken.chance
    try:
        train(broken, seed)
        return Harm(healthy, broken.score(broken), chance)
    except Exception as error:  # which is a harm, too
        return Harm(healthy, math.nan, chance, f"{type(error).__name__}: {str(error)[:80]}")


@cache
def learned(setting: Setting, seed: int) -> tuple[Patient, Patient]:
    """A healthy setting before and after its training; many faults share one."""
    made = []
    for _ in range(2):
        torch.manual_seed(seed)
        made.append(setting())
    start, twin = made
    if isinstance(start.model, dc.Model):
        start.model.prepare([start.data.train])
    train(twin, seed)
    return start, twin

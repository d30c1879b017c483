"""Grid of rate and regularization: which of nine settings learns most in a short training.

Measured on request (``thorough``, ``--all``): the loss after a third of a trial with a third, one and three times the
learning rate, at no weight decay, 1e-4 and 1e-2. It only suggests: a note, never a fault. Li, Karpathy and Johnson,
CS231n: convolutional neural networks for visual recognition, https://cs231n.github.io/neural-networks-3/.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.rates import range_test
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "dynamics", 95

RATES, DECAYS = (1 / 3, 1.0, 3.0), (0.0, 1e-4, 1e-2)


def check(patient: Patient) -> Iterator[Diagnosis]:
    if not patient.thorough:
        raise Skip("it is made on request: thorough=True, --all")
    if patient.without_fit:
        raise Skip("the loss does not measure fit")
    steps = max(20, patient.reference.asked // 3)
    ends: dict[str, float] = {}
    for rate in RATES:
        for decay in DECAYS:
            words = f"rate {rate * patient.rate:.2g}, decay {decay:g}"
            course = patient.train(steps, change=Change(words, rate=rate, on_optimizer=_decaying(decay)))
            ends[words] = course.last
    best = min(ends, key=lambda words: ends[words])
    tested = range_test(patient, patient.rate)
    patient.note(best=best, loss=ends[best])
    yield Diagnosis(
        cause="grid of rate and regularization",
        evidence={
            "best": best,
            "explodes_at": tested["explodes_at"] if tested["explodes_at"] is not None else "not within the range",
            "suggested": str([float(f"{rate:.2g}") for rate in tested["suggested"] or []]),
            "bars": {words: end for words, end in ends.items() if math.isfinite(end)},
            "range": tested,
        },
        advice=f"in {steps} steps, {best} learns most",
        grade="note",
    )


def _decaying(decay: float):  # type: ignore[no-untyped-def]
    def change(optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            if "weight_decay" in group:
                group["weight_decay"] = decay

    return change

"""Seeds: the same seed gives the same loss.

Measured: the loss on one batch, twice after all global generators are seeded alike; exact up to rounding. A generator
of a module's own that is seeded by the clock, or by nothing, makes a run that cannot be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.train.randomness import seed_all

STAGE, PLACE = "wiring", 45


def check(patient: Patient) -> Iterator[Diagnosis]:
    losses = []
    for _ in range(2):
        model, batch = patient.twin(), patient.batch(16)  # which a step may change
        seed_all(0)
        losses.append(float(patient.loss(model, batch).detach()))
    one, other = losses
    if one != one or other != other:
        raise Skip("the loss is not a number")
    patient.note(difference=abs(one - other))
    if abs(one - other) > 1e-5 * max(abs(one), abs(other), 1e-6) and not torch.are_deterministic_algorithms_enabled():
        yield Diagnosis(
            cause="seed not honored",
            evidence={"loss": one, "loss_again": other},
            advice="draw from the global generators, or from one that the seed of the run decides",
            confirmed_by="exact: two passes after the same seed differ",
        )

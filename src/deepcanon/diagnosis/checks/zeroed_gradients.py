"""Zeroed gradients: each step of the optimizer is made with the gradient of its own batches.

Measured, of a user's own step: at the optimizer's steps, whether some backward pass since the last step began without
gradients; exact, so that accumulation over several batches is fine. Without ``zero_grad`` gradients of all batches add
up. Also seen: an optimizer whose ``step`` is never called, and gradients that are zeroed before it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.watching import Watched, watched

STAGE, PLACE = "wiring", 30

LONGEST = 64
"""Gradients may be accumulated over so many batches."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.step is None:
        raise Skip("the usual step is made, which zeroes gradients")
    model, optimizer = patient.twins()
    before = [p.detach().clone() for p in model.parameters()]
    with watched(optimizer, norms=True) as seen:
        for number, batch in enumerate(patient.batches(), 1):
            patient.call_step(model, optimizer, batch, number)
            if seen.steps >= 4 or number >= LONGEST:
                break
    moved = any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    patient.note(calls=number, steps=seen.steps, backwards=seen.backwards, stale=sum(seen.stale))
    found = _cause(seen, moved)
    if found is not None:
        cause, advice = found
        yield Diagnosis(
            cause=cause,
            evidence={"calls": number, "steps_of_the_optimizer": seen.steps, "backward_passes": seen.backwards},
            advice=advice,
            where="step",
            confirmed_by="exact: seen at backward and at the optimizer's step",
        )


def _cause(seen: Watched, moved: bool) -> tuple[str, str] | None:
    if seen.steps == 0:
        if moved:
            return None  # it updates by hand
        if seen.backwards == 0:
            return "parameters do not change", "call loss.backward() before optimizer.step()"
        return "parameters do not change", "call optimizer.step() after loss.backward()"
    if seen.backwards == 0 and not moved:
        return "parameters do not change", "call loss.backward() before optimizer.step()"
    if len(seen.stale) >= 2 and all(seen.stale[-2:]):
        return "missing zero_grad", "call optimizer.zero_grad() in every step"
    if seen.step_norms and max(seen.step_norms) == 0 and max(seen.raw_norms, default=0) > 0:
        return "gradients cleared before step", "call zero_grad() before backward(), not after"
    return None

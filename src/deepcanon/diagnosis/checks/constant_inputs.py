"""Constant inputs: the examples differ from each other.

Measured: the variance of every feature over the training split; exact. If all features are constant nothing can be
learned but the shares of the classes. Some constant features (the border pixels of images) are healthy and only noted.
"""

from __future__ import annotations

from collections.abc import Iterator

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient
from deepcanon.diagnosis.rows import rows_of

STAGE, PLACE = "data", 20


def check(patient: Patient) -> Iterator[Diagnosis]:
    rows = rows_of(patient.train_split)
    constant = (rows == rows[:1]).all(0)
    share = float(constant.double().mean())
    patient.note(constant_share=share)
    if share == 1.0 and len(rows) > 1:
        yield Diagnosis(
            cause="constant inputs",
            evidence={"constant_features": int(constant.sum()), "examples": len(rows)},
            advice="look at how the inputs are read: every example is the same",
            where="train split",
            confirmed_by="exact: the variance of every feature is 0",
        )

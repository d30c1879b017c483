"""Codes for missing values: no feature holds a number far outside of its range again and again.

Measured: for each feature the lowest and the highest value; one that stands in at least 0.5 % of the rows, three at
least, and lies beyond all others by more than five times their whole range is a code (-999, 99999), not a measurement.
Features whose other values are few different ones (counts, pixels) are not examined. A network takes the code for a
quantity, and it decides the scale of the feature.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.rows import real_rows

STAGE, PLACE = "data", 35

SHARE, FEWEST, BEYOND, DIFFERENT = 0.005, 3, 5.0, 10


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.train_split.x.ndim != 2:
        raise Skip("the examples are not rows of features")
    rows = real_rows(patient)
    for feature in range(rows.shape[1]):
        found = _code(rows[:, feature])
        if found is not None:
            value, count, low, high = found
            yield Diagnosis(
                cause="out-of-range values",
                evidence={"value": value, "rows": count, "others_from": low, "others_to": high},
                advice="it looks like a code for missing values: fill in the mean, or leave these rows out",
                where=f"feature {feature}",
                confirmed_by="the value repeats far outside of the range of all others",
                margin=min(abs(value - low), abs(value - high)) / (BEYOND * (high - low)),
            )
            return
    patient.note(features=rows.shape[1])


def _code(column: Tensor) -> tuple[float, int, float, float] | None:
    """A value that repeats far outside of the others: the value, how often, and the range of the others."""
    for value in (column.min(), column.max()):
        here = column == value
        count = int(here.sum())
        if count < max(FEWEST, SHARE * len(column)) or count > len(column) / 2:
            continue
        others = column[~here]
        low, high = float(others.min()), float(others.max())
        if len(torch.unique(others)) < DIFFERENT or high == low:
            continue
        if min(abs(float(value) - low), abs(float(value) - high)) > BEYOND * (high - low):
            return float(value), count, low, high
    return None

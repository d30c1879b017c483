"""Finite values: no example holds a NaN or an infinite number.

Measured: the values of the inputs and the labels of every split; exact, without a threshold. One NaN makes the loss of
its batch NaN, and the first step on that makes all weights NaN. Entries that are missing by design (data with an
``observed`` mask) do not count.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from deepcanon.core import Series
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient

STAGE, PLACE = "data", 10


def check(patient: Patient) -> Iterator[Diagnosis]:
    for name, split in patient.splits.items():
        if not split.in_memory or hasattr(split, "observed") or isinstance(split, Series):
            continue  # NaN says that a value of a series is missing
        parts = [("inputs", split.x), ("targets" if patient.task == "targets" else "labels", split.labels)]
        for what, values in parts:
            if values is None or values.layout != torch.strided or not values.is_floating_point():
                continue
            bad = ~torch.isfinite(values)
            if bool(bad.any()):
                yield _diagnosis(what, values, bad, name)
                return
    patient.note(splits=len(patient.splits))


def _diagnosis(what: str, values: Tensor, bad: Tensor, split: str) -> Diagnosis:
    rows = bad.flatten(1).any(1) if bad.ndim > 1 else bad
    row = int(rows.nonzero()[0])
    column = int(bad[row].flatten().nonzero()[0]) if bad.ndim > 1 else 0
    return Diagnosis(
        cause=f"non-finite {what}",
        evidence={
            "values": int(bad.sum()),
            "rows": int(rows.sum()),
            "first_row": row,
            "first_column": column,
            "rows_listed": rows.nonzero().flatten()[:20].tolist(),
            "figure": "rows",
        },
        advice="remove these rows or fill in the values before training",
        where=f"row {row} of the {split} split",
        confirmed_by="exact: the values themselves",
    )

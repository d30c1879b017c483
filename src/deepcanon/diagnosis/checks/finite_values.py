"""Finite values: no example holds a NaN or an infinite number.

Measured: the values of the inputs and the labels of every split; exact, without a threshold. One NaN makes the loss of
its batch NaN, and the first step on that makes all weights NaN. Entries that are missing by design do not count: data
with an ``observed`` mask, and values that a module or its loss masks: loss and gradient of such rows are finite.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, DeepcanonError, Series
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "data", 10

FEW = 16
"""So many rows show whether their values are masked."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    for name, split in patient.splits.items():
        if not split.in_memory or hasattr(split, "observed") or isinstance(split, Series):
            continue  # NaN says that a value of a series is missing
        parts = [("inputs", split.x), ("targets" if patient.task == "targets" else "labels", split.labels)]
        for what, values in parts:
            if values is None or values.layout != torch.strided or not values.is_floating_point():
                continue
            bad = ~torch.isfinite(values)
            if bool(bad.any()) and not _are_masked(patient, split, bad):
                yield _diagnosis(what, values, bad, name)
                return
    patient.note(splits=len(patient.splits))


def _are_masked(patient: Patient, split: AnyBatch, bad: Tensor) -> bool:
    """Whether the loss of rows with such values is finite, and its gradient."""
    rows = (bad.flatten(1).any(1) if bad.ndim > 1 else bad).nonzero().flatten()
    model = patient.twin()
    some = split if patient.whole else split.select(rows[:FEW] if len(rows) > 1 else torch.cat([rows, rows]))
    try:
        loss = patient.loss(model, some)
        gradients = torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad], allow_unused=True)
    except (DeepcanonError, RuntimeError, ValueError, IndexError, Skip):
        return False
    found = [loss, *(each for each in gradients if each is not None)]
    return len(found) > 1 and all(bool(torch.isfinite(each).all()) for each in found)


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

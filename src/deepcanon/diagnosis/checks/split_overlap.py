"""Overlap of the splits: no held-out example is one of the training examples.

Measured: the share of validation and test rows that stand in the training split, too, bit for bit, and the share of
training rows that stand there twice. Alarmed where more than 1 % overlap and ten times as many as repeat within the
training split: where examples are few different patterns (bars and stripes), repeats leak nothing. Rows of measured
numbers do not repeat at random, so that there copies within the training split excuse nothing: they were made before
the split (oversampling). Measured is a feature that differs in at least half of 100 different rows or more. What is
measured on such rows is memory, not generalization (Kapoor and Narayanan, Leakage and the reproducibility crisis, 2023,
https://doi.org/10.1016/j.patter.2023.100804).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from deepcanon.core.many_graphs import Graphs
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.rows import rows_of

STAGE, PLACE = "data", 40
STOPS = False

LEAST, TIMES = 0.01, 10.0
DIFFERENT, ROWS = 0.5, 100


def check(patient: Patient) -> Iterator[Diagnosis]:
    held = {name: split for name, split in patient.splits.items() if name != "train"}
    if not held:
        raise Skip("there is no held-out split")
    if isinstance(patient.train_split, Graphs):
        raise Skip("the examples are parts of graphs, which splits share")
    train = rows_of(patient.train_split, most=20_000)
    if bool((train == train[:1]).all()):
        raise Skip("the inputs are constant")
    first: dict[bytes, int] = {}
    repeats = 0
    for place, row in enumerate(train.numpy()):
        repeats += first.setdefault(row.tobytes(), place) != place
    inner = repeats / len(train)
    copies = _is_measured(train[list(first.values())])
    for name, split in held.items():
        rows = rows_of(split, most=20_000)
        pairs = [(place, first[key]) for place, row in enumerate(rows.numpy()) if (key := row.tobytes()) in first]
        share = len(pairs) / max(1, len(rows))
        patient.note(**{f"{name}_overlap": share, "repeats_in_train": inner})
        if share > LEAST and (copies or share > TIMES * inner) and len(pairs) > 1:
            yield Diagnosis(
                cause="overlapping splits",
                evidence={
                    "shared_rows": len(pairs),
                    "share": share,
                    "repeats_in_train": inner,
                    "pairs": [list(pair) for pair in pairs[:20]],
                    "figure": "rows",
                },
                advice="split again after removing duplicates, or by groups that belong together",
                where=f"row {pairs[0][0]} of {name} is row {pairs[0][1]} of train",
                confirmed_by="exact: equal rows",
            )
            return


def _is_measured(rows: Tensor) -> bool:
    """Whether different rows have a feature that hardly ever repeats: such rows are equal only if they were copied."""
    most = max(len(torch.unique(column)) for column in rows.T)
    return len(rows) >= ROWS and most >= DIFFERENT * len(rows)

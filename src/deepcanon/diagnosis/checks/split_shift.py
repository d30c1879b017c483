"""Shift between the splits: held-out examples are distributed as the training examples are.

Measured: for each feature the difference of the means by the standard deviation, and the ratio of the standard
deviations; their medians over the features. Random splits differ by about 1 / sqrt(n). Alarmed where the median shift
is above 1 or the median ratio above 2 either way: the held-out data were scaled in another way, or come from elsewhere.
A series that wanders and was split by time is shifted, too, and soundly so: where rows follow one another in small
steps and the split goes on where the training split, or another held-out one, ends, the shift is a suspicion only.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.rows import MOST, real_rows, rows_of

STAGE, PLACE = "data", 60
STOPS = False

SHIFT, RATIO, FEWEST = 1.0, 2.0, 30
WANDERS = 0.3
"""Rows follow one another if neighbors are nearer than this share of what rows are at random."""
GAP = 30
"""So many rows may have been left out between two splits, as windows that reach over their border are."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    held = {name: split for name, split in patient.splits.items() if name != "train"}
    if not held:
        raise Skip("there is no held-out split")
    train = real_rows(patient)
    for name, split in held.items():
        rows = rows_of(split)
        if min(len(rows), len(train)) < FEWEST or rows.shape[1] != train.shape[1]:
            continue
        mean, std = train.mean(0), train.std(0)
        varies = std > 0
        if not bool(varies.any()):
            continue
        shift = float(((rows.mean(0) - mean).abs() / std)[varies].median())
        ratio = (rows.std(0) / std)[varies].clamp_min(1e-9)
        change = float(ratio.log().abs().median().exp())
        patient.note(**{f"{name}_shift": shift, f"{name}_ratio": change})
        if shift > SHIFT or change > RATIO:
            others = [train, *(rows_of(other) for each, other in held.items() if each != name)]
            goes_on = any(_goes_on(before, rows) for before in others)
            yield Diagnosis(
                cause="shifted splits",
                evidence={"median_shift_in_deviations": shift, "median_ratio_of_deviations": float(ratio.median())},
                advice="treat all splits alike: by the means and scales of the training split",
                where=f"the {name} split is scaled or distributed in another way than the train split",
                confirmed_by="the medians over all features",
                margin=max(shift / SHIFT, change / RATIO),
                grade="suspicion" if goes_on else "fault",
            )
            return


def _goes_on(before: Tensor, after: Tensor) -> bool:
    """Whether rows are those of a series that wanders, and these begin where the others end, in its usual steps."""
    if max(len(before), len(after)) >= MOST or before.shape[1] != after.shape[1]:
        return False  # of large splits the rows that are looked at are not neighbors
    scale = before.std(0).clamp_min(1e-300)
    before, after = before / scale, after / scale
    steps = (before[1:] - before[:-1]).norm(dim=1)
    order = torch.randperm(len(before), generator=torch.Generator().manual_seed(0))
    if float(steps.mean()) > WANDERS * float((before[order] - before).norm(dim=1).mean()):
        return False
    gap = min(GAP, len(before) - 1)
    usual = (before[gap:] - before[:-gap]).norm(dim=1)
    return float((after[0] - before[-1]).norm()) <= float(usual.max())

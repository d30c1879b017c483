"""Shift between the splits: held-out examples are distributed as the training examples are.

Measured: for each feature the difference of the means by the standard deviation, and the ratio of the standard
deviations; their medians over the features. Random splits differ by about 1 / sqrt(n). Alarmed where the median shift
is above 1 or the median ratio above 2 either way: the held-out data were scaled in another way, or come from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.rows import real_rows, rows_of

STAGE, PLACE = "data", 60
STOPS = False

SHIFT, RATIO, FEWEST = 1.0, 2.0, 30


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
            yield Diagnosis(
                cause="shifted splits",
                evidence={"median_shift_in_deviations": shift, "median_ratio_of_deviations": float(ratio.median())},
                advice="treat all splits alike: by the means and scales of the training split",
                where=f"the {name} split is scaled or distributed in another way than the train split",
                confirmed_by="the medians over all features",
                margin=max(shift / SHIFT, change / RATIO),
            )
            return

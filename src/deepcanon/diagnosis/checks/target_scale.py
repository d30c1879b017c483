"""Scale of the targets: real targets are of the order of what a new network gives.

Measured: the standard deviation of the targets and their mean by it. Suspected where the first is outside [0.03, 5] or
the second above 5; named only if more than half of the constant answer's loss is left and a copy that is trained on
standardized targets leaves half of the share of their variance at most, for two seeds. A network gives values near 0 at
first: far targets take most of the training to reach, or make gradients explode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from deepcanon.core import AnyBatch, Labeled
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, helps, learns_little
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "start", 2  # of the data, but after what is exact, since it takes trainings

LOW, HIGH, OFFSET = 0.03, 5.0, 5.0


def check(patient: Patient) -> Iterator[Diagnosis]:
    split = patient.train_split
    if patient.task != "targets" or not isinstance(split, Labeled):
        raise Skip("the labels are not real targets")
    if patient.baseline is None:
        raise Skip("the loss of a constant answer is not known")
    y = split.y.double()
    deviation, mean = float(y.std(correction=0)), float(y.mean())
    if deviation == 0:
        raise Skip("the targets are constant")
    offset = abs(mean) / deviation
    patient.note(deviation=deviation, offset=offset)
    if LOW <= deviation <= HIGH and offset <= OFFSET:
        return
    if not learns_little(patient):
        return  # it learns all the same
    change = Change("with standardized targets", on_data=standardized_targets)
    after = replace(patient, data=replace(patient.data, train=standardized_targets(split)))
    if after.baseline is None or after.baseline <= 0:
        raise Skip("the loss of a constant answer is not known")
    found = compare(patient, change, unit=patient.baseline / after.baseline)
    if helps(patient, found):
        yield Diagnosis(
            cause="unscaled targets",
            evidence={"deviation_of_targets": deviation, "mean_of_targets": mean, **found.evidence()},
            advice="standardize the targets, and put predictions back into their units",
            confirmed_by="a copy that is trained on standardized targets gains, for two seeds",
            margin=max(deviation / HIGH, LOW / deviation, offset / OFFSET),
        )


def standardized_targets(batch: AnyBatch) -> AnyBatch:
    if not isinstance(batch, Labeled):
        return batch
    y = batch.y.double()
    std = y.std(0, correction=0, keepdim=True)
    changed = torch.where(std > 0, (y - y.mean(0, keepdim=True)) / std.clamp_min(1e-300), 0.0)
    return replace(batch, y=changed.to(batch.y.dtype))

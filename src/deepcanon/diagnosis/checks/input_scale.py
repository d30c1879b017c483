"""Scale of the inputs: features are of one order of magnitude, near zero.

Measured: over the features that vary, the largest by the smallest range, the largest mean by its standard deviation,
and the typical standard deviation. Suspected where the first is above 100, the second above 10, or the third outside
[0.01, 10]; named only if the training learns little and a copy that is trained on standardized inputs reaches a loss of
half at most, for two seeds. Gradient descent is slow in proportion to the spread of the curvature, which is that of the
squared scales (LeCun et al., Efficient BackProp, 1998, https://doi.org/10.1007/3-540-49430-8_2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, SemiBatch
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import ails, compare, helps, learns_little
from deepcanon.diagnosis.rows import real_rows
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "start", 1  # of the data, but after what is exact, since it takes trainings

SPREAD, OFFSET, LOW, HIGH = 100.0, 10.0, 0.01, 10.0


def check(patient: Patient) -> Iterator[Diagnosis]:
    rows = real_rows(patient)
    std, mean = rows.std(0, correction=0), rows.mean(0)
    varies = std > 1e-12 * mean.abs().clamp_min(1e-30)
    if not bool(varies.any()):
        raise Skip("the inputs are constant")
    std, mean = std[varies], mean[varies]
    ranges = (rows[:, varies] - mean).abs().amax(0)
    spread, offset, typical = float(ranges.max() / ranges.min()), float((mean.abs() / std).max()), float(std.median())
    patient.note(spread=spread, offset=offset, typical_deviation=typical)
    if spread <= SPREAD and offset <= OFFSET and LOW <= typical <= HIGH:
        return
    if patient.baseline is not None and not learns_little(patient):
        return  # it learns all the same
    change = Change("with standardized inputs", on_data=standardized_inputs)
    found = compare(patient, change, unit=_unit(patient))
    if not helps(patient, found):
        return
    worst = int(ranges.argmax() if spread > SPREAD else (mean.abs() / std).argmax())
    yield Diagnosis(
        cause="unscaled inputs",
        evidence={
            "largest_by_smallest_range": spread,
            "largest_mean_by_deviation": offset,
            "typical_deviation": typical,
            **found.evidence(),
        },
        advice="standardize the inputs: subtract the mean of each feature and divide by its standard deviation",
        where=f"feature {int(varies.nonzero()[worst])}",
        confirmed_by="a copy that is trained on standardized inputs gains, for two seeds",
        margin=max(spread / SPREAD, offset / OFFSET, typical / HIGH, LOW / typical),
    )


def _unit(patient: Patient) -> float:
    """What a loss on standardized inputs is to be multiplied by: where inputs are the targets, too, its unit is new."""
    after = replace(patient, data=replace(patient.data, train=standardized_inputs(patient.train_split)))
    if patient.baseline is None or after.baseline is None or after.baseline <= 0:
        if patient.task == "none" and not ails(patient):
            raise Skip("the loss depends on the unit of the inputs, and that of a constant answer is not known")
        return 1.0
    return patient.baseline / after.baseline


def standardized_inputs(batch: AnyBatch) -> AnyBatch:
    """The examples with standardized features; of images and sequences with one scale for each channel.

    Of few labeled examples among unlabeled ones, both by the scales of the latter.
    """
    known: Tensor = (batch.unlabeled if isinstance(batch, SemiBatch) else batch.x).double()
    axes = (0,) if known.ndim == 2 else (0, 2, 3) if known.ndim == 4 else tuple(range(known.ndim))
    mean, std = known.mean(axes, keepdim=True), known.std(axes, correction=0, keepdim=True)

    def changed(x: Tensor) -> Tensor:
        return torch.where(std > 0, (x.double() - mean) / std.clamp_min(1e-300), 0.0).to(x.dtype)

    if isinstance(batch, SemiBatch):
        return replace(batch, x=changed(batch.x), unlabeled=changed(batch.unlabeled))
    return replace(batch, x=changed(batch.x))

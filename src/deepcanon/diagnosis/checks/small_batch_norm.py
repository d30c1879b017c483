"""Batch normalization: batches are large enough for their statistics.

Measured: the number of values of a channel in a batch. Suspected at 8 and fewer; named only if a copy that normalizes
each example by itself gains, for two seeds, in evaluation or in training. Wu and He, Group normalization, 2018,
https://arxiv.org/abs/1803.08494.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from deepcanon.diagnosis.anatomy import recorded
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare
from deepcanon.diagnosis.repairs import by_groups
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "dynamics", 20

FEW = 8


def check(patient: Patient) -> Iterator[Diagnosis]:
    if not any(isinstance(module, _BatchNorm) for module in patient.model.modules()):
        raise Skip("there is no batch normalization")
    model = patient.twin()
    with recorded(model) as calls:
        patient.outputs(model, next(patient.batches()))
    counts = {call.name: call.input.numel() // call.input.shape[1] for call in calls
              if isinstance(call.module, _BatchNorm) and isinstance(call.input, Tensor)}  # fmt: skip
    if not counts:
        raise Skip("batch normalization is not used")
    where = min(counts, key=lambda name: counts[name])
    patient.note(values=counts[where])
    if counts[where] > FEW:
        return
    found = compare(patient, Change("normalized by example", on_model=by_groups))
    if found.gains:
        yield Diagnosis(
            cause="batch norm in tiny batches",
            evidence={"values_of_a_channel": counts[where], **found.evidence()},
            advice="take batches of 16 or more, or normalize each example by itself (LayerNorm, GroupNorm)",
            where=where,
            confirmed_by="a copy that normalizes each example by itself gains, for two seeds",
            change=patient.setting(batch_size=16),
        )

"""Running statistics: batch normalization answers in evaluation as it does in training.

Measured after a trial: the loss in evaluation mode by that of the same batch in training mode without dropout, and
whether the running statistics have moved at all. Alarmed where they have not (a momentum of 0), exactly; or where,
after five times as many steps as the running mean remembers, or with a momentum below 0.001, the loss in evaluation is
three times higher and above the best constant answer's. Ioffe and Szegedy, 2015, https://arxiv.org/abs/1502.03167.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip, evaluating
from deepcanon.diagnosis.repairs import no_dropout

STAGE, PLACE = "dynamics", 30

HIGHER, MEMORIES, SLOW = 3.0, 5.0, 1e-3


def check(patient: Patient) -> Iterator[Diagnosis]:
    before = {name: module for name, module in patient.model.named_modules() if _keeps(module)}
    if not before:
        raise Skip("there is no batch normalization with running statistics")
    course = patient.reference
    after = dict(course.model.named_modules())
    still = [name for name, module in before.items()
             if torch.equal(module.running_mean, after[name].running_mean) and module.momentum == 0]  # fmt: skip
    if still:
        yield Diagnosis(
            cause="batch norm statistics are off",
            evidence={"layers": len(still), "momentum": 0.0, "steps": course.steps},
            advice="give batch normalization a momentum of 0.1, the default",
            where=still[0],
            confirmed_by="exact: the running mean after the trial is that before",
        )
        return
    slowest = min(module.momentum or 1.0 for module in before.values())
    if patient.baseline is None or not course.finite or SLOW <= slowest < MEMORIES / course.steps:
        raise Skip("the trial is too short for the running statistics")
    plain = replace(patient, step=None) if patient.criterion is not None or patient.ours is not None else patient
    batch = patient.batch(256)
    with evaluating(course.model):
        evaluated = float(plain.loss(course.model, batch))
    twin = copy.deepcopy(course.model).train()
    no_dropout(twin)
    with torch.no_grad():
        trained = float(plain.loss(twin, batch))
    patient.note(in_evaluation=evaluated, in_training=trained)
    if evaluated > HIGHER * trained and evaluated > patient.baseline > trained:
        yield Diagnosis(
            cause="batch norm statistics are off",
            evidence={"loss_in_evaluation": evaluated, "loss_in_training": trained},
            advice="take a momentum of 0.1, larger batches, and shuffle them",
            where=f"{next(iter(before))}: running statistics are not those of batches",
            confirmed_by="the same batch in both modes",
            margin=evaluated / (HIGHER * trained),
        )


def _keeps(module: nn.Module) -> bool:
    return isinstance(module, _BatchNorm) and module.running_mean is not None

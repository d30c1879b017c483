"""Dropout: it leaves enough units to learn from.

Measured: the largest dropout probability of the layers. Suspected from 0.75 on in a training that does not learn; named
only if a copy without dropout gains, for two seeds. Srivastava et al., 2014,
https://jmlr.org/papers/v15/srivastava14a.html.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch.nn.modules.dropout import _DropoutNd

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, is_stuck
from deepcanon.diagnosis.repairs import NO_DROPOUT

STAGE, PLACE = "dynamics", 10

STRONG = 0.75


def check(patient: Patient) -> Iterator[Diagnosis]:
    layers = {name: module.p for name, module in patient.model.named_modules() if isinstance(module, _DropoutNd)}
    own = {name: module.dropout for name, module in patient.model.named_modules()
           if isinstance(getattr(module, "dropout", None), float)}  # fmt: skip
    found = {**layers, **own}
    if not found:
        raise Skip("there is no dropout")
    where = max(found, key=lambda name: found[name])
    patient.note(largest=found[where])
    if found[where] < STRONG:
        return
    compared = compare(patient, NO_DROPOUT)
    weak = patient.baseline is not None and patient.reference.last > 0.5 * patient.baseline
    if compared.gains and (weak or is_stuck(patient, patient.reference)):
        yield Diagnosis(
            cause="dropout too strong",
            evidence={"probability": found[where], **compared.evidence()},
            advice="drop half of the units at most",
            where=where,
            confirmed_by="a copy without dropout gains, for two seeds",
            margin=found[where] / STRONG,
        )

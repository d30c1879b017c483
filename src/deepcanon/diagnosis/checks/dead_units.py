"""Dead units: rectifiers fire for some examples.

Measured: in each rectified layer, the share of units (channels) that are 0 for all of up to 1,024 examples, at the
start and after a trial. A dead unit has no gradient and never comes back. Healthy networks have up to 0.64 of them
(flows), so that more than 0.9 of a layer are suspected, or half of one in a training that is stuck; named only if
weights drawn anew gain, for two seeds.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.anatomy import Operations
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import ails, compare, helps
from deepcanon.diagnosis.repairs import FRESH, of_usual_scale

STAGE, PLACE = "start", 20

EXAMPLES, HALF = 1024, 0.5
RECTIFIERS = frozenset({"relu", "relu_", "relu6"})


def check(patient: Patient) -> Iterator[Diagnosis]:
    start = dead_shares(patient, patient.twin())
    if not start:
        raise Skip("there are no rectifiers")
    worst = max(start)
    limit = thresholds.of("dead_units", "dead")
    patient.note(dead=worst)
    if worst <= HALF or not (worst > limit.high or ails(patient)):
        return
    if not of_usual_scale(patient, biases=False):
        return  # of weights that are far too small or large it is a symptom
    found = compare(patient, FRESH)
    if helps(patient, found):
        place = start.index(worst)
        yield Diagnosis(
            cause="dead units",
            evidence={"dead_share": worst, "layer": place + 1, **found.evidence()},
            advice="start from smaller weights with biases of 0, or take a leaky rectifier",
            where=f"rectified layer {place + 1} of {len(start)}",
            confirmed_by="a copy with weights drawn anew gains, for two seeds",
            margin=limit.margin(worst),
        )


def dead_shares(patient: Patient, model: nn.Module) -> list[float]:
    """The share of dead units of each rectified layer."""
    batch = patient.batch(min(EXAMPLES, len(patient.train_split)))
    with Operations(RECTIFIERS) as used, torch.no_grad():
        patient.outputs(model, batch)
    found = []
    for value in used.results:
        if isinstance(value, Tensor) and value.ndim >= 2 and len(value) == len(batch):
            units = value.flatten(2).amax((0, 2)) if value.ndim == 4 else value.flatten(0, -2).amax(0)
            found.append(float((units <= 0).double().mean()))
    return found

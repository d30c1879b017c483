"""Symmetric start: the units of a hidden layer are not copies of each other.

Measured: after a few real steps, the share of the units of each hidden linear or convolutional layer whose weights
equal those of another unit. Alarmed above one half; exact but for rounding. Units that start alike get equal gradients
and stay alike, so that a layer has the power of one unit; all weights at 0 get none at all. A last layer at zero, and
factors that start at zero and leave it (LoRA), are healthy.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from deepcanon.diagnosis.anatomy import recorded
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, helps
from deepcanon.diagnosis.repairs import FRESH

STAGE, PLACE = "start", 10

STEPS, SHARE, CLOSE = 5, 0.5, 1e-4
LAYERS = (nn.Linear, nn.modules.conv._ConvNd)


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.in_stages:
        raise Skip("it is trained in turns one after the other, of which five steps see the first only")
    model = patient.twin()
    with recorded(model) as calls:
        patient.loss(model, patient.batch(8))
    layers = list(dict.fromkeys(call.name for call in calls if isinstance(call.module, LAYERS)))
    if len(layers) < 2:
        raise Skip("there is no hidden layer")
    course = patient.train(STEPS)
    weights = dict(course.model.named_parameters())
    hidden = {name: weights[f"{name}.weight"].detach() for name in layers[:-1] if f"{name}.weight" in weights}
    hidden = {name: each for name, each in hidden.items() if len(each) > 1 and weights[f"{name}.weight"].requires_grad}
    shares = {name: _alike(weight.flatten(1)) for name, weight in hidden.items()}
    if not shares:
        raise Skip("there is no hidden layer that is trained")
    worst = max(shares, key=lambda name: shares[name])
    patient.note(alike=shares[worst])
    if shares[worst] <= SHARE:
        yield from _broken(patient, list(hidden))
    else:
        zero = not bool(hidden[worst].any())
        yield Diagnosis(
            cause="symmetric start",
            evidence={"units_alike": shares[worst], "units": len(hidden[worst]), "steps": STEPS},
            advice="start from small random weights (the defaults of torch), which differ from unit to unit",
            where=f"layer {worst}: " + ("all weights are 0" if zero else "all units have the same weights"),
            confirmed_by=f"exact: the weights after {STEPS} steps",
            margin=shares[worst] / SHARE,
        )


def _broken(patient: Patient, layers: list[str]) -> Iterator[Diagnosis]:
    """Units that start alike and are told apart by their biases alone: named if weights drawn anew gain."""
    weights = dict(patient.model.named_parameters())
    rows = {name: weights[f"{name}.weight"].detach().flatten(1) for name in layers}
    shares = {name: _alike(each[each.norm(dim=1) > 0]) for name, each in rows.items()}  # zeros may be on purpose
    worst = max(shares, key=lambda name: shares[name])
    if shares[worst] <= SHARE or not bool(weights[f"{worst}.weight"].any()):
        return
    found = compare(patient, FRESH)
    if helps(patient, found):
        yield Diagnosis(
            cause="symmetric start",
            evidence={"units_alike": shares[worst], **found.evidence()},
            advice="start from small random weights (the defaults of torch), which differ from unit to unit",
            where=f"layer {worst}: all units begin with the same weights",
            confirmed_by="a copy with weights drawn anew gains, for two seeds",
            margin=shares[worst] / SHARE,
        )


def _alike(rows: Tensor) -> float:
    """The share of rows that equal an earlier one."""
    rows = rows.double()
    first: list[Tensor] = []
    copies = 0
    for row in rows[:256]:
        scale = CLOSE * float(row.norm())
        if any(float((row - other).norm()) <= scale for other in first):
            copies += 1
        else:
            first.append(row)
        if len(first) > 128:
            return 0.0
    return copies / max(1, min(len(rows), 256) - 1)

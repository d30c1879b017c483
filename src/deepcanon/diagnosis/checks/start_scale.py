"""Scale of the start: the first loss is that of an answer that knows nothing, and layers keep the scale of their input.

Measured: the first loss by that of the best constant answer; the largest share of units of a logistic or tanh layer
that are saturated (beyond 5 or 3); the standard deviation of each layer's output. A start far too large gives a first
loss many times that of chance and saturated units, one far too small gives nothing to learn from. Suspected where the
first loss is above three times the highest of healthy trainings, or the training does not learn; named only if weights
drawn anew gain, for two seeds: by each layer's own rule, by that of He, or, of networks that repeat a layer, with
matrices that enlarge nothing. It is said what the start does: gradients explode where the first loss is that high,
vanish where the first matrix gets less than 1e-6 of what it gets with weights drawn anew, or units are saturated. He et
al., Delving deep into rectifiers, 2015, https://arxiv.org/abs/1502.01852; Pascanu et al., 2013,
https://arxiv.org/abs/1211.5063.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.anatomy import Operations, recorded
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import ails, compare, helps
from deepcanon.diagnosis.repairs import FRESH, HE, TAME, of_usual_scale, times
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "start", 30

SATURATED = {"sigmoid": 5.0, "tanh": 3.0}
HALF = 0.5
LOST = 1e-6
"""A gradient of so small a share of that of a healthy start has vanished."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.without_fit or patient.run is not None:
        raise Skip("the loss does not measure fit, or the weights are trained already")
    statistics = _statistics(patient)
    patient.note(**statistics)
    high = "first_by_constant" in statistics and (
        statistics["first_by_constant"] > thresholds.of("start_scale", "first_by_constant").high
    )
    if not high and not ails(patient):
        return
    if not high and of_usual_scale(patient):
        return  # weights drawn anew would be the same
    if not high and sum(parameter.ndim >= 2 for parameter in patient.twin().parameters()) == 1:
        return  # one layer learns from any start: weights drawn anew are ahead by luck where the rate is too low
    found = compare(patient, FRESH)
    if not helps(patient, found) and (not ails(patient) or helps(patient, compare(patient, times(0.1)))):
        return  # it is the rate that another check names
    others = iter((HE, replace(HE, words=f"{HE.words}, a tenth of the rate", rate=0.1), TAME))
    while not helps(patient, found):
        change = next(others, None)
        if change is None:
            return
        found = compare(patient, change)
    saturated = statistics.get("saturated", 0.0)
    yield Diagnosis(
        cause=_cause(patient, found.change, high, saturated),
        evidence={**statistics, **found.evidence()},
        advice="start from the defaults of torch, or from weights of variance 2 / inputs (He)",
        where=f"{saturated:.0%} of the units of a layer are saturated" if saturated > HALF else "weights",
        confirmed_by=f"a copy {found.change.words} gains, for two seeds",
        margin=thresholds.of("start_scale", "first_by_constant").margin(statistics["first_by_constant"])
        if high
        else None,
    )


def _cause(patient: Patient, change: Change, high: bool, saturated: float) -> str:
    """The cause, with what the start does to gradients or units, in the words of the field."""
    if change is TAME:
        return "exploding gradients"
    if saturated > HALF:
        return "bad initialization, saturated units"
    if high:
        return "bad initialization, exploding gradients"
    fresh = patient.twin()
    change.on_model(fresh)  # type: ignore[misc]
    own, anew = (_first_gradient(patient, model) for model in (patient.twin(), fresh))
    return "bad initialization, vanishing gradients" if own < LOST * anew else "bad initialization"


def _first_gradient(patient: Patient, model: nn.Module) -> float:
    """The norm of the gradient of the first weight matrix."""
    weight = next((p for p in model.parameters() if p.requires_grad and p.ndim >= 2), None)
    if weight is None:
        return 0.0
    (found,) = torch.autograd.grad(patient.loss(model, patient.batch()), [weight], allow_unused=True)
    return 0.0 if found is None else float(found.to_dense().norm())


def _statistics(patient: Patient) -> dict[str, Any]:
    model, batch = patient.twin(), patient.batch(256)
    with recorded(model) as calls, Operations(frozenset(SATURATED)) as used, torch.no_grad():
        patient.outputs(model, batch)
        loss = float(patient.loss(model, batch).detach())
    found: dict[str, Any] = {"first_loss": loss}
    if patient.baseline is not None and patient.baseline > 0:
        found["first_by_constant"] = loss / patient.baseline
    outputs = [call.output for call in calls if isinstance(call.output, Tensor) and call.output.is_floating_point()]
    scales = [float(each.double().std()) for each in outputs if each.numel() > 1]
    if scales:
        found["largest_deviation"] = max(scales)
    shares = [
        float((args[0].abs() > SATURATED[name]).double().mean())
        for name, args, _ in used.seen
        if args and isinstance(args[0], Tensor) and args[0].is_floating_point()
    ]
    if shares:
        found["saturated"] = max(shares)
    return found

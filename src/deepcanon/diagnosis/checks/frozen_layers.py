"""Frozen layers: what is left to train suffices.

Measured, where a training is stuck: whether parameters are frozen or left out of the optimizer. Named only if a copy
that trains all of them gains, for two seeds, at the same rate or, where what is left learns at neither, at one ten or
a hundred times higher. Layers that are frozen on purpose, as those of a pretrained network, are fine while the rest
learns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from deepcanon.core import Descend, Model
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, helps
from deepcanon.diagnosis.trial import Change
from deepcanon.train.process import frozen

STAGE, PLACE = "start", 5

WEAK = 0.7
"""A training that leaves less than this share of the constant answer's loss has enough to train."""

RATES = (1.0, 10.0, 100.0)
"""All parameters may need a higher rate than the training's own, too, to show what the others were missed for."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    held = _held(patient)
    fixed = [name for name, p in patient.model.named_parameters() if not p.requires_grad or id(p) not in held]
    patient.note(frozen=len(fixed))
    if not fixed:
        return
    if patient.baseline is None or _suffices(patient):
        return
    if patient.by_turns:
        settings = {"freeze": ()} if patient.settings["freeze"] else {}
        found = compare(patient, Change("with all parameters trained", on_model=_all_in_one, settings=settings))
        gains = helps(patient, found)
    else:
        for rate in RATES:
            here = patient if rate == 1 else _hastened(patient, rate)
            if rate != 1 and _suffices(here):
                return  # it is the rate that another check names
            found = compare(here, Change("with all parameters trained"), by=_thawed(here))
            gains = helps(here, found)
            if gains:
                break
    if gains:
        left_out = [name for name, p in patient.model.named_parameters() if p.requires_grad and id(p) not in held]
        forgotten = len(left_out) == len(fixed) and not (patient.by_turns and patient.settings["freeze"])
        yield Diagnosis(
            cause="parameters not in the optimizer" if forgotten else "frozen parameters",
            evidence={"frozen": ", ".join(fixed[:6]), "number": len(fixed), **found.evidence()},
            advice="train them: requires_grad=True, and give them to the optimizer",
            where=fixed[0],
            confirmed_by="a copy that trains all parameters gains, for two seeds",
        )


def _suffices(patient: Patient) -> bool:
    """Whether what is trained learns."""
    course = patient.reference
    return patient.baseline is not None and course.finite and course.last < WEAK * patient.baseline


def _hastened(patient: Patient, rate: float) -> Patient:
    """The same training at a higher rate."""
    model, optimizer = patient.twins()
    for group in optimizer.param_groups:
        group["lr"] *= rate
    return replace(patient, model=model, optimizer=optimizer)


def _held(patient: Patient) -> set[int]:
    """The parameters that are trained."""
    if patient.optimizer is not None:
        return {id(p) for group in patient.optimizer.param_groups for p in group["params"]}
    assert patient.ours is not None
    turns = patient.ours.turns()
    if len(turns) != 1 or not isinstance(turns[0], Descend) or turns[0].gradient is not None:
        raise Skip("a model of several turns, or of gradients by hand, trains what it means to")
    if any(not p.requires_grad for p in patient.model.parameters()):
        raise Skip("the model freezes parameters on purpose, as one that is tuned does")
    with frozen(patient.ours, patient.settings["freeze"]):
        return {id(p) for p in turns[0].parameters if p.requires_grad}


def _all_in_one(model: nn.Module) -> None:
    """Let the model descend on all its parameters."""
    assert isinstance(model, Model)
    model.__dict__["turns"] = lambda: [Descend(model.loss, model.parameters())]


def _thawed(patient: Patient) -> Patient:
    """The same training, of all parameters."""
    assert patient.optimizer is not None
    model, optimizer = patient.twins()
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    others = [p for p in model.parameters() if id(p) not in held and p.requires_grad]
    if others:
        optimizer.add_param_group({"params": others, "lr": optimizer.param_groups[0]["lr"]})
    return replace(patient, model=model, optimizer=optimizer)

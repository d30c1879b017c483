"""Non-finite values: the loss and its gradient are finite numbers, at the start and as far as a trial goes.

Measured: the loss on a few batches, and its gradient; where one is NaN or infinite, the first operation that makes such
a number of finite ones is found by running the pass again under a dispatcher that sees every result. A logarithm or a
square root of 0, a division by 0 and an exponential that overflows are the usual ones. Exact. In the precision of the
training: the microscope (docs/microscope.md), which computes in double precision, shows the same operation on its
graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch
from deepcanon.diagnosis.anatomy import first_bad_operation, names_of, reached, recorded
from deepcanon.diagnosis.checks.input_scale import standardized_inputs
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient

STAGE, PLACE = "loss", 5

BATCHES, MANY = 2, 512
LARGE = 1e3
"""Inputs beyond this may be the cause themselves, and so may outputs."""
OF_VALUES = ("log", "sqrt", "div", "reciprocal")
"""Operations that are not finite for some moderate numbers."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.ours is not None and patient.by_turns and not patient.ours.turns():
        return
    for batch in _batches(patient):
        model = patient.twin()
        loss = patient.loss(model, batch)
        if not bool(torch.isfinite(loss.detach()).all()):
            if _is_finite_if_scaled(patient, batch):
                return  # the scale of the inputs is the cause, which another check says
            yield _of_loss(patient, batch, float(loss.detach().sum()))
            return
        if loss.requires_grad:
            bad = _bad_gradient(model, loss)
            if bad:
                if _is_finite_if_scaled(patient, batch):
                    return
                yield _of_gradient(patient, batch, bad)
                return
    patient.note(batches=BATCHES)
    yield from _on_the_way(patient)


def _on_the_way(patient: Patient) -> Iterator[Diagnosis]:
    """A loss that a trial makes infinite although the outputs are moderate: by a logarithm or a division of its own."""
    course = patient.reference
    if course.finite or patient.ours is not None or patient.is_game or course.taken < 2:
        return
    before = patient.train(course.taken - 1)
    if not before.finite:
        return
    for number, batch in enumerate(patient.batches(), 1):
        if number < course.taken:
            continue
        with recorded(before.model) as calls, torch.no_grad():
            patient.outputs(before.model, batch)
        outputs = [call.output for call in calls if isinstance(call.output, Tensor)]
        moderate = all(bool((each.abs() < LARGE).all()) for each in outputs)
        operation = first_bad_operation(partial(patient.loss, before.model, batch)) if moderate else None
        if operation and any(word in operation for word in OF_VALUES):
            yield Diagnosis(
                cause="non-finite values",
                evidence={"step": number, "first_operation": operation},
                advice=_advice(operation),
                where=f"{operation} in the loss",
                confirmed_by="exact: the first operation that makes such a number of finite ones, of moderate outputs",
            )
        return


def _batches(patient: Patient) -> Iterator[AnyBatch]:
    """A few training batches, and many examples at once."""
    for _, batch in zip(range(BATCHES), patient.batches(), strict=False):
        yield batch
    yield patient.batch(MANY)


def _is_finite_if_scaled(patient: Patient, batch: AnyBatch) -> bool:
    """Whether inputs are large, and standardized ones give a finite loss and gradient."""
    x = batch.x
    if not x.is_floating_point() or not bool(torch.isfinite(x).all()) or float(x.abs().max()) < LARGE:
        return False
    model = patient.twin()
    loss = patient.loss(model, standardized_inputs(batch))
    return bool(torch.isfinite(loss.detach()).all()) and not (loss.requires_grad and _bad_gradient(model, loss))


def _bad_gradient(model: nn.Module, loss: Tensor) -> str:
    """The name of a leaf whose gradient is not finite; also of one that a function reaches past the copy."""
    leaves, names = reached(loss), names_of(model)
    for leaf, gradient in zip(leaves, torch.autograd.grad(loss, leaves, allow_unused=True), strict=True):
        dense = gradient.coalesce().values() if gradient is not None and gradient.is_sparse else gradient
        if dense is not None and not bool(torch.isfinite(dense).all()):
            return names.get(id(leaf), "a weight of the model itself, which a function closes over")
    return ""


def _of_loss(patient: Patient, batch: AnyBatch, value: float) -> Diagnosis:
    model = patient.twin()
    operation = first_bad_operation(lambda: patient.loss(model, batch))
    layer = _layer(patient, batch)
    return Diagnosis(
        cause="non-finite values",
        evidence={"loss": "NaN" if math.isnan(value) else "infinite", "first_operation": operation or "not found"},
        advice=_advice(operation),
        where=layer or operation or "loss",
        confirmed_by="exact: the first operation that makes such a number of finite ones",
    )


def _layer(patient: Patient, batch: AnyBatch) -> str:
    """The first layer whose output is not finite."""
    model = patient.twin()
    with recorded(model) as calls:
        patient.loss(model, batch)
    for call in calls:
        if isinstance(call.output, Tensor) and not bool(torch.isfinite(call.output.detach()).all()):
            return call.name
    return ""


def _of_gradient(patient: Patient, batch: AnyBatch, parameter: str) -> Diagnosis:
    operation = ""
    model = patient.twin()
    try:
        with torch.autograd.set_detect_anomaly(True):
            loss = patient.loss(model, batch)
            torch.autograd.grad(loss, reached(loss), allow_unused=True)
    except RuntimeError as error:
        words = str(error).split("'")
        operation = words[1].removesuffix("Backward0").lower() if len(words) > 1 else ""
    return Diagnosis(
        cause="non-finite values",
        evidence={"gradient_of": parameter, "first_operation": operation or "not found"},
        advice=_advice(operation),
        where=f"the backward pass of {operation}" if operation else parameter,
        confirmed_by="exact: the gradient of a finite loss is not finite",
    )


def _advice(operation: str | None) -> str:
    name = operation or ""
    if "log" in name:
        return "take the logarithm of values that cannot be 0: log_softmax in place of log(softmax), or clamp them"
    if "sqrt" in name or "norm" in name or "pow" in name:
        return "add a small number under the root, whose slope at 0 is infinite"
    if "div" in name or "reciprocal" in name:
        return "add a small number to what is divided by"
    if "exp" in name:
        return "limit what goes into the exponential"
    return "look at the values that enter this operation"

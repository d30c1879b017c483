"""First steps: forward pass, loss, backward pass and update run, and leave the inputs as they are.

Measured: two steps on a copy, with a batch as the training draws it; exact. An error of autograd is named by its cause:
an operation in place that destroys what the backward pass needs, a loss without a graph, batch normalization of one
example, a state that is carried over from step to step with its graph, shapes or data types that do not fit. A forward
pass that changes its input in place would change the data set itself where a loader hands out views of it; a step that
does, where the inputs are the targets, too, changes what is to be learned.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip, evaluating

STAGE, PLACE = "wiring", 10

CAUSES = (
    ("modified by an inplace operation", "in-place fault",
     "write the operation without the underscore, out of place"),
    ("leaf Variable that requires grad", "in-place fault",
     "change parameters inside of torch.no_grad() only"),
    ("does not require grad and does not have a grad_fn", "detached graph",
     "leave out detach(), .data, .item(), numpy() and no_grad() between the parameters and the loss"),
    ("more than 1 value per channel", "batch norm on a batch of one example",
     "take larger batches, or leave out the last batch (drop_last=True)"),
    ("backward through the graph a second time", "graph kept from step to step",
     "detach the state at the end of each step"),
    ("out of bounds", "labels out of range", "count classes from 0, and give one output for each"),
    ("out of range", "out-of-range values", "give the embedding as many rows as there are tokens"),
)  # fmt: skip
"""What torch says, the cause in the field's words, and the advice."""

TYPES = ("scalar type", "dtype", "not implemented for", "expected m1 and m2")
SHAPES = (
    "shapes cannot be multiplied", "must match the size", "Target size", "Using a target size", "shape mismatch",
    "size mismatch", "to match target", "channels", "Expected input batch_size", "is invalid for input of size",
)  # fmt: skip


def check(patient: Patient) -> Iterator[Diagnosis]:
    try:
        course = patient.train(2, seconds=patient.budget)
        patient.note(first_loss=course.losses[0] if course.losses else None)
    except Skip:
        raise
    except Exception as error:  # whatever it is, the user's training would end by it
        if not any(parameter.requires_grad for parameter in patient.model.parameters()):
            return  # which another check says
        yield _named(str(error), type(error).__name__)
        return
    found = [*_changed_input(patient)]
    yield from found or _changed_target(patient)


def _changed_input(patient: Patient) -> Iterator[Diagnosis]:
    model, batch = patient.twin(), patient.batch(4)
    if batch.x.layout != torch.strided:
        return
    before, labels = batch.x.clone(), None if batch.labels is None else batch.labels.clone()
    with evaluating(model):
        patient.loss(model, batch) if patient.ours is not None else patient.outputs(model, batch)
    if labels is not None and batch.labels is not None and not torch.equal(labels, batch.labels):
        yield Diagnosis(
            cause="in-place fault",
            evidence={"largest_change": float((labels - batch.labels).abs().max())},
            advice="work on a new tensor: y = y * a in place of y *= a",
            where="the loss changes its targets",
            confirmed_by="exact: the targets before and after the loss",
        )
    elif not torch.equal(torch.nan_to_num(before), torch.nan_to_num(batch.x)):
        yield Diagnosis(
            cause="in-place fault",
            evidence={"largest_change": float((before - batch.x).abs().max())},
            advice="work on a new tensor: x = x * a in place of x *= a",
            where="the forward pass changes its input",
            confirmed_by="exact: the input before and after a forward pass",
        )


def _changed_target(patient: Patient) -> Iterator[Diagnosis]:
    """A step of the user's own that changes its inputs, where these are the targets, too."""
    if patient.step is None or patient.optimizer is None or patient.train_split.labels is not None:
        return
    (model, optimizer), batch = patient.twins(), patient.batch(4)
    if batch.x.layout != torch.strided:
        return
    before = batch.x.clone()
    patient.call_step(model, optimizer, batch, 1)
    if not torch.equal(torch.nan_to_num(before), torch.nan_to_num(batch.x)):
        yield Diagnosis(
            cause="in-place fault",
            evidence={"largest_change": float((before - batch.x).abs().max())},
            advice="work on a new tensor: x = x + a in place of x += a",
            where="the step changes its inputs, which are its targets, too",
            confirmed_by="exact: the batch before and after a step",
        )


def _named(message: str, kind: str) -> Diagnosis:
    line = message.strip().splitlines()[0][:200] if message.strip() else kind
    known = next(((cause, advice) for words, cause, advice in CAUSES if words in message), None)
    if known is None and any(words in message for words in TYPES):
        known = ("wrong data type", "give the model inputs, and the loss targets, of the type that they take")
    if known is None and any(words in message for words in SHAPES):
        known = ("shapes do not fit", "compare the shapes of inputs, outputs and targets")
    cause, advice = known or ("the training step fails", "make one step run on one batch before all else")
    return Diagnosis(cause=cause, evidence={"error": f"{kind}: {line}"}, advice=advice, confirmed_by="exact: the error")

"""Vanishing gradients: the first layers get a gradient that is not lost on the way.

Measured: the norm of the gradient of the first weight matrix by that of the last, the median over three batches.
Suspected where it is below a third of the lowest of healthy trainings while the training is stuck; named if a copy with
rectifiers in place of logistic and tanh units and He's start gains, or, where it is a thousand times lower still, is no
longer stuck, for two seeds. Where a matrix starts at zero, as the last one of some models does on purpose, those before
it get no gradient at first, and nothing is measured; nor is it of models that are trained in several turns, layer by
layer. Hochreiter, 1991; Glorot and Bengio, 2010, https://proceedings.mlr.press/v9/glorot10a.html.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import Compared, compare, helps, is_stuck
from deepcanon.diagnosis.repairs import by_he
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "start", 40

LOST = 1e3
"""A gradient that is so many times below the threshold is lost: there the repair need only get a training unstuck."""

SQUASHING = (nn.Sigmoid, nn.Tanh, nn.Hardtanh, nn.Hardsigmoid, nn.Softsign)


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.without_fit or (patient.ours is not None and patient.ours.relates_examples):
        raise Skip("the loss does not measure fit, so that it cannot be stuck")
    if patient.ours is not None and patient.by_turns and len(patient.ours.turns()) > 1:
        raise Skip("it is trained in several turns")
    if any(p.ndim >= 2 and p.requires_grad and not bool(p.any()) for p in patient.model.parameters()):
        raise Skip("a matrix starts at zero, so that those before it get no gradient yet")
    norms = gradient_by_depth(patient)
    if len(norms) < 3:
        raise Skip("there are fewer than three weight matrices")
    first, last = next(iter(norms.values())), list(norms.values())[-1]
    if last == 0:
        raise Skip("the last layer has no gradient")
    ratio = first / last
    patient.note(first_by_last=ratio)
    limit = thresholds.of("vanishing_gradients", "first_by_last")
    if ratio >= limit.low or not is_stuck(patient, patient.reference):
        return
    lost = ratio < limit.low / LOST
    found = compare(patient, RECTIFIED)
    if lost and not _unstuck(patient, found):  # gradients that arrive may be too large for the rate
        found = compare(patient, replace(RECTIFIED, words=f"{RECTIFIED.words}, a tenth of the rate", rate=0.1))
    if helps(patient, found) or (lost and _unstuck(patient, found)):
        yield Diagnosis(
            cause="vanishing gradients",
            evidence={
                "first_by_last_gradient": ratio,
                **found.evidence(),
                "figure": "bars",
                "bars": dict(list(norms.items())[:40]),
            },
            advice="use rectifiers with He's start, residual connections or normalization, or fewer layers",
            where=next(iter(norms)),
            confirmed_by="a copy with rectifiers and He's start gains, for two seeds",
            margin=limit.margin(ratio),
        )


def _unstuck(patient: Patient, found: Compared) -> bool:
    return len(found.after) == 2 and not any(is_stuck(patient, course) for course in found.after)


def gradient_by_depth(patient: Patient) -> dict[str, float]:
    """The norm of the gradient of each weight matrix, in the order of the parameters, the median of three batches."""
    found: dict[str, list[float]] = {}
    for seed in range(3):
        model = patient.twin()
        loss = patient.loss(model, patient.batch(64, seed))
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad and p.ndim >= 2]
        gradients = torch.autograd.grad(loss, [p for _, p in named], allow_unused=True)
        for (name, _), gradient in zip(named, gradients, strict=True):
            if gradient is not None and not gradient.is_sparse:
                found.setdefault(name, []).append(float(gradient.norm()))
    return {name: statistics.median(norms) for name, norms in found.items()}


@torch.no_grad()
def rectified(model: nn.Module) -> None:
    """Rectifiers in place of the squashing units between layers, and weights of variance 2 / inputs."""
    places = [(parent, name) for parent in model.modules() for name, child in parent.named_children()
              if isinstance(child, SQUASHING)]  # fmt: skip
    last = list(model.modules())[-1]
    for parent, name in places:
        if getattr(parent, name) is not last:  # that of the output says what it means
            setattr(parent, name, nn.ReLU())
    by_he(model)


RECTIFIED = Change("with rectifiers and He's start", on_model=rectified)

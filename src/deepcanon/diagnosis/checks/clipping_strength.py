"""Gradient clipping: it cuts off spikes, not every gradient.

Measured: the norm of the gradient when backward ends and when the optimizer steps; of our models the setting ``clip``,
if it is below 1. Suspected where less than a hundredth is left at the median step; named only if a copy whose gradients
keep their size gains, with its rate or ten times that, for two seeds.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace

import torch

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, helps
from deepcanon.diagnosis.trial import Change
from deepcanon.diagnosis.watching import watched

STAGE, PLACE = "optimizer", 15

LEFT, STEPS = 0.01, 10
WIDE = 1.0
"""A limit that clips nothing in most healthy trainings, and that is advised."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.by_turns:
        if patient.settings["clip"] is None:
            raise Skip("gradients are not clipped")
        left, change = _left_by_setting(patient), Change("without clipping", settings={"clip": None})
    elif patient.step is None and patient.settings["clip"] is None:
        raise Skip("gradients are not clipped")
    else:
        left = _left_by_step(patient)
        change = Change("with gradients of their size", on_step=_scaled(1 / max(left, 1e-30)))
    patient.note(left=left)
    if left >= LEFT or left == 0:
        return
    found = compare(patient, change)
    if not helps(patient, found):  # a rate that was raised to make up for it, or never suited, is another question
        found = compare(patient, replace(change, words=f"{change.words} and ten times the rate", rate=10.0))
    if helps(patient, found):
        yield Diagnosis(
            cause="clipping too strong",
            evidence={"share_of_the_gradient_left": left, **found.evidence()},
            advice="clip at about the norm that gradients have when training is well, 1.0 for instance",
            where="between backward and the optimizer's step",
            confirmed_by="a copy whose gradients keep their size gains, for two seeds",
            margin=LEFT / left,
            change=patient.setting(clip="norm:1"),
        )


def _left_by_step(patient: Patient) -> float:
    """The share of the gradient's norm that the optimizer gets, the median of a few steps."""
    model, optimizer = patient.twins()
    with watched(optimizer, norms=True) as seen:
        for number, batch in zip(range(1, STEPS + 1), patient.batches(), strict=False):
            patient.call_step(model, optimizer, batch, number)
    if len(seen.raw_norms) != len(seen.step_norms):
        raise Skip("gradients are accumulated over several batches")
    shares = [after / before for before, after in zip(seen.raw_norms, seen.step_norms, strict=True) if before > 0]
    return statistics.median(shares) if shares else 1.0


def _left_by_setting(patient: Patient) -> float:
    from deepcanon.train.settings import clipping

    kind, limit = clipping(patient.settings) or ("norm", 1.0)  # type: ignore[arg-type]
    if limit >= WIDE:
        raise Skip(f"gradients may be as large as {limit:g}: why they are far larger is another question")
    model = patient.twin()
    loss = patient.loss(model, patient.batch(int(patient.settings["batch_size"])))
    gradients = torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad], allow_unused=True)
    found = [g for g in gradients if g is not None and not g.is_sparse]
    if not found:
        raise Skip("there is no gradient")
    size = float(torch.nn.utils.get_total_norm(found)) if kind == "norm" else max(float(g.abs().max()) for g in found)
    return min(1.0, limit / max(size, 1e-30))


def _scaled(factor: float):  # type: ignore[no-untyped-def]
    def change(optimizer: torch.optim.Optimizer, _: int) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(factor)

    return change

"""Shapes of outputs and targets: each output is compared with its own target.

Measured: outputs of shape (N, 1) against targets (N,), or the other way round, which torch stretches to (N, N); and
whether the gradient at the first output changes with the targets of the other examples; exact. The model then learns
the mean of all targets. Shapes that differ are fine where the loss itself brings them together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from deepcanon.core import Labeled
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "loss", 10


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(8)
    if not isinstance(batch, Labeled) or patient.task == "none" or len(batch) < 3:
        raise Skip("the examples have no labels")
    model = patient.twin().eval()
    outputs: list[Tensor] = []
    hook = model.register_forward_hook(lambda *call: _keep(outputs, call[2]))
    slope = _slope(patient, model, batch, outputs)
    if slope is None:
        raise Skip("the outputs are not one tensor")
    output = outputs[-1]
    if not batch.y.is_floating_point() and (output.ndim != 2 or output.shape[1] != 1):
        raise Skip("classes are compared by index")
    stretched = _stretched(tuple(output.shape), tuple(batch.y.shape))
    patient.note(stretched=stretched)
    if stretched:
        y = batch.y.clone()
        y[1:] = y[1:] + (1 if not y.is_floating_point() else float(y.std()) + 1.0)
        other = _slope(patient, model, replace(batch, y=y), outputs)
        if other is not None and not torch.allclose(slope[0], other[0], rtol=1e-4, atol=1e-9):
            yield Diagnosis(
                cause="wrong broadcast of targets",
                evidence={"outputs": str(tuple(output.shape)), "targets": str(tuple(batch.y.shape))},
                advice="give outputs and targets one shape: output.squeeze(1), or y.unsqueeze(1)",
                where="loss",
                confirmed_by="exact: the gradient of an example depends on the targets of the others",
            )
    hook.remove()


def _keep(outputs: list[Tensor], output: object) -> None:
    if isinstance(output, Tensor):
        if output.requires_grad and not output.is_leaf:
            output.retain_grad()
        outputs.append(output)


def _slope(patient: Patient, model: nn.Module, batch: Labeled, outputs: list[Tensor]) -> Tensor | None:
    outputs.clear()
    loss = patient.loss(model, batch)
    if not outputs or not outputs[-1].requires_grad or len(outputs[-1]) != len(batch):
        return None
    (slope,) = torch.autograd.grad(loss, [outputs[-1]], allow_unused=True)
    return slope


def _stretched(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        both = torch.broadcast_shapes(one, other)
    except RuntimeError:
        return False
    return bool(math.prod(both) > max(math.prod(one), math.prod(other)))

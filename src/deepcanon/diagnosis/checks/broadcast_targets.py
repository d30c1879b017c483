"""Shapes of outputs and targets: each output is compared with its own target.

Measured: outputs of shape (N, 1) against targets (N,), or the other way round, which torch stretches to (N, N); and
whether the gradient at the first output changes with the targets of the other examples; exact. The model then learns
the mean of all targets. Shapes that differ are fine where the loss itself brings them together. Of sequences, with a
class at each position: whether the class at one position changes the gradient at a few places of several positions, as
where outputs are reshaped for a loss that they should be transposed for; a loss of whole sequences changes all of them.
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

SEQUENCE = 3
"""The axes of the outputs for sequences of classes."""


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
    if not batch.y.is_floating_point() and output.ndim == batch.y.ndim + 1 == SEQUENCE:
        yield from _scrambled(patient, model, batch, outputs, slope)
        return
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


def _scrambled(
    patient: Patient, model: nn.Module, batch: Labeled, outputs: list[Tensor], slope: Tensor
) -> Iterator[Diagnosis]:
    """Classes of one position that are compared with outputs of several."""
    length, classes = batch.y.shape[1], torch.unique(batch.y[batch.y >= 0])
    axes = [axis for axis in (1, 2) if outputs[-1].shape[axis] == length]
    if len(axes) != 1 or len(classes) < 2 or length < 3:
        return
    others = outputs[-1].numel() // (len(batch) * length)
    for place in (0, length // 2, length - 1):
        y = batch.y.clone()
        known = y[:, place] >= 0
        following = classes[(torch.searchsorted(classes, y[known, place]) + 1) % len(classes)]
        y[known, place] = following
        other = _slope(patient, model, replace(batch, y=y), outputs)
        if other is None:
            return
        changed = (other - slope).abs() > 1e-6 * slope.abs().max()
        each = changed.movedim(axes[0], 1).flatten(2)  # (B, T, classes)
        positions, entries = each.any(2).sum(1), each.flatten(1).sum(1)
        if bool(((positions > 1) & (entries <= others)).any()):
            yield Diagnosis(
                cause="outputs reshaped over the wrong axis",
                evidence={"positions": int(positions.max()), "outputs": str(tuple(outputs[-1].shape))},
                advice="give the loss output.transpose(1, 2), or both flattened: view and reshape mix the positions",
                where="loss",
                confirmed_by="exact: the class at one position changes the gradient at others",
            )
            return


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

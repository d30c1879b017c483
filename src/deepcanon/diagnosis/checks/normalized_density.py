"""Normalized density: what a module of the user's calls a log-likelihood is that of a density.

Measured, of a plain module with one number for each example of one or two values, whose loss is minus the mean of that
number: after a trial, the integral of its exponential over a grid of six deviations around the data. It is 1 for a
density, and less where the grid ends; named where it is above 1.5 for two seeds, on a grid of half the width as well.
Such a number grows without end: the log-determinant of a flow has the wrong sign or lacks a step, or a constant that
normalizes depends on what is learned. Rezende and Mohamed, 2015, https://arxiv.org/abs/1505.05770
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from deepcanon.diagnosis.families.after_training import trained
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "family", 12

MOST = 1.5
"""A density integrates to 1; a sum over a grid errs by less."""
WIDTH, POINTS, FINER = 6.0, 200, 400
"""The grid: deviations around the mean of the data, and points along an axis."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if not _is_likelihood(patient):
        raise Skip("it does not give a log-likelihood for each example of one or two values")
    coarse = [_integral(patient, seed, POINTS) for seed in (0, 1)]
    patient.note(integral=coarse[0])
    if min(coarse) <= MOST or min(_integral(patient, seed, FINER) for seed in (0, 1)) <= MOST:
        return
    yield Diagnosis(
        cause="density not normalized: wrong log-determinant",
        evidence={"integral": min(coarse)},
        advice="look at the sign of the log-determinant, at each of its steps, and at what the density is divided by",
        where="log-likelihood",
        confirmed_by="two seeds, two grids",
        margin=min(coarse) / MOST,
    )


def _is_likelihood(patient: Patient) -> bool:
    """Whether the loss is minus the mean of one number for each example of one or two values."""
    batch = patient.batch(8)
    x = batch.x
    if patient.ours is not None or patient.criterion is None or patient.step is not None or patient.whole:
        return False
    if not x.is_floating_point() or x.ndim != 2 or x.shape[1] > 2:
        return False
    output = patient.outputs(patient.twin().eval(), batch)
    if not isinstance(output, Tensor) or tuple(output.shape) not in {(len(x),), (len(x), 1)}:
        return False
    targets = x if batch.labels is None else batch.labels
    for seed in range(2):
        given = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed))
        if not torch.allclose(patient.criterion(given, targets), -given.mean(), rtol=1e-4, atol=1e-6):
            return False
    return True


def _integral(patient: Patient, seed: int, points: int) -> float:
    """The integral of the exponential of the output around the data, of a copy that a trial has trained."""
    model: nn.Module = trained(patient, seed)
    data = patient.train_split.x
    mean, std = data.mean(0), data.std(0).clamp_min(1e-12)
    axes = [torch.linspace(float(m - WIDTH * s), float(m + WIDTH * s), points) for m, s in zip(mean, std, strict=True)]
    grid = torch.cartesian_prod(*axes).reshape(-1, len(axes))
    with torch.no_grad():
        logs = torch.cat([model(part).flatten() for part in grid.split(10_000)]).double()
    cell = sum(float((axis[1] - axis[0]).log()) for axis in axes)
    return float((logs.logsumexp(0) + cell).exp())

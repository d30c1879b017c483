"""Exactness of a normalizing flow as it stands: its inverse, and its log-determinant against autograd."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Model, given_batch
from deepcanon.diagnosis.given_outputs import Unheard, loss_of_outputs

ROWS = 4
WIDEST = 256
"""The most values of an example of which the whole Jacobian is computed."""


def is_flow(model: Any) -> bool:
    """Whether it maps data to latents with a log-determinant, and latents to data."""
    return all(callable(getattr(model, name, None)) for name in ("to_latent", "to_data", "log_prob"))


def sign_in_loss(patient: Any, batch: AnyBatch) -> int:
    """The sign of the log-determinant in the loss of a plain module that is a flow, which must be -1; else 0.

    A flow gives latents and a number for each example. The loss of one with standard normal latents z has the slope
    z / B, and -1 / B with the log-determinant.
    """
    if isinstance(patient.model, Model) or not batch.x.is_floating_point():
        return 0
    outputs = copy.deepcopy(patient.model).eval()(*batch.inputs)
    if not (isinstance(outputs, tuple | list) and len(outputs) == 2 and all(isinstance(o, Tensor) for o in outputs)):
        return 0
    z, log_det = (output.detach().requires_grad_() for output in outputs)
    if z.numel() != batch.x.numel() or log_det.numel() != len(batch):
        return 0
    try:
        loss = loss_of_outputs(patient, batch)((z, log_det))
    except Unheard:
        return 0
    found: tuple[Tensor | None, ...] = torch.autograd.grad(loss, [z, log_det], allow_unused=True)
    by_z, by_log_det = found
    if by_z is None or by_log_det is None or not torch.allclose(by_z * len(batch), z, rtol=1e-3, atol=1e-4):
        return 0
    signs = (s for s in (-1, 1) if torch.allclose(by_log_det * len(batch), s * torch.ones_like(log_det), rtol=1e-3))
    return next(signs, 0)


def stirred(model: Any) -> Any:
    """The model with noise on its parameters: what starts as the identity must not hide a fault."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator).to(parameter))
    return model


@torch.no_grad()
def inverse_error(model: Any, batch: AnyBatch) -> float:
    """The largest error of data that come back from their latents, by the standard deviation of the data."""
    model = given_batch(model, batch)
    latents = model.to_latent(batch.x)[0]
    back = model.to_data(latents).reshape(batch.x.shape)
    scale = batch.x.flatten(1).double().std(0).mean().clamp_min(1e-12)
    gap = (back.double() - batch.x.double()).abs()
    return math.inf if not bool(gap.isfinite().all()) else float(gap.max() / scale)


def log_det_error(model: Any, batch: AnyBatch) -> tuple[float, float] | None:
    """How far ``log_det`` is from the log-determinant of the Jacobian by autograd, for each value, and from minus it.

    In double precision, of a few examples; None where an example has too many values.
    """
    if batch.x[0].numel() > WIDEST:
        return None
    few = batch.select(torch.arange(min(ROWS, len(batch))))
    model = given_batch(model, few) if isinstance(model, Model) else model
    x = few.x
    with torch.no_grad():
        claimed = _forward(model, x)[1].double().flatten()

    def latent(row: Tensor, place: int) -> Tensor:
        rows = torch.cat([x[:place], row.unsqueeze(0), x[place + 1 :]])  # a context has a row for each example
        z = _forward(model, rows)[0][place]
        return z.flatten()

    size = x[0].numel()
    found = []
    for place, row in enumerate(x):
        jacobian = torch.autograd.functional.jacobian(lambda r, at=place: latent(r, at), row)
        found.append(torch.linalg.slogdet(jacobian.reshape(size, size).double()).logabsdet)
    true = torch.stack(found)
    return float((claimed - true).abs().max() / size), float((claimed + true).abs().max() / size)


def _forward(model: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = model.to_latent(x) if callable(getattr(model, "to_latent", None)) else model(x)
    return found

"""The best constant answer: what a loss comes to if the input is not used."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import Batch, Model
from deepcanon.diagnosis.patient import Patient, evaluating

MOST = 4096
"""So many examples say well enough what a constant answer comes to."""


def constant_answer(patient: Patient) -> float | None:
    """The loss of the best constant answer on the training split; None where it is not known.

    Of a plain module it is the lowest loss of the answers that are best for the usual losses: the shares of the
    classes, their logarithms, the mean, and its log-odds.
    """
    split = patient.train_split
    y = split.labels
    if y is None and isinstance(split, Batch):
        y = split.x  # an autoencoder's targets
    if y is None or not len(y):
        return None
    y = y[:MOST].detach()
    if patient.ours is not None:
        return _of_ours(patient.ours, patient, y)
    if patient.criterion is None or not isinstance(split, Batch):
        return None
    with evaluating(patient.model):
        some = split if patient.whole else split.select(torch.arange(min(2, len(split))))
        output = patient.outputs(patient.model, some)
        if not isinstance(output, Tensor) or len(output) > len(some):
            return None
        losses = []
        for answer in _answers(y, tuple(output.shape[1:])):
            try:
                losses.append(float(patient.criterion(answer.to(output.dtype).expand(len(y), *output.shape[1:]), y)))
            except (RuntimeError, ValueError, IndexError, TypeError):
                continue
    finite = [loss for loss in losses if loss == loss]
    return min(finite, default=None)


def _of_ours(model: Model, patient: Patient, y: Tensor) -> float | None:  # type: ignore[type-arg]
    if model.surrogate:
        return None
    with evaluating(patient.model), torch.random.fork_rng(devices=[]):
        terms = set(model.loss(patient.batch(2)))
    if terms == {"reconstruction"}:
        return _reconstruction(model, patient)
    if not hasattr(model, "predict"):
        return None
    if patient.task == "classes" and terms == {"nll"} and y.ndim == 1:
        shares = torch.bincount(y).double() / len(y)
        return float(-(shares * shares.clamp_min(1e-12).log()).sum())
    if terms == {"mse"} and y.is_floating_point():
        return float(y.double().flatten(1).var(0, correction=0).sum())
    return None


def _reconstruction(model: Model, patient: Patient) -> float | None:  # type: ignore[type-arg]
    """The loss of the mean example, where the loss is a multiple of the summed squares of the error."""
    units = []
    with evaluating(model), torch.random.fork_rng(devices=[]):
        for seed in range(2):
            batch = patient.batch(4, seed)
            output = patient.outputs(model, batch)
            if not isinstance(output, Tensor) or output.numel() != batch.x.numel():
                return None
            squares = (output.reshape(batch.x.shape) - batch.x).double().square().flatten(1).sum(1).mean()
            units.append(float(patient.loss(model, batch)) / max(float(squares), 1e-30))
    if abs(units[0] - units[1]) > 1e-3 * abs(units[0]):
        return None  # it is another loss
    return units[0] * float(patient.train_split.x[:MOST].double().flatten(1).var(0, correction=0).sum())


def _answers(y: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Constant answers of this shape for one example."""
    if not y.is_floating_point():
        if not shape or int(y.min()) < 0:
            return [torch.zeros(shape)]
        shares = torch.bincount(y.flatten(), minlength=shape[0])[: shape[0]].double() / y.numel()
        widened = shares.reshape(-1, *[1] * (len(shape) - 1))
        mean = y.double().mean()
        return [widened.clamp_min(1e-6).log(), widened, torch.full(shape, float(mean)), torch.zeros(shape)]
    mean = y.double().mean(0)
    if mean.shape != shape:
        mean = y.double().mean().expand(shape)
    median = y.double().median(0).values if mean.shape == y.shape[1:] else y.double().median().expand(shape)
    odds = (mean.clamp(1e-6, 1 - 1e-6)).logit()
    return [mean, median, odds, torch.zeros(shape)]

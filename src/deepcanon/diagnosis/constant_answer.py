"""The best constant answer: what a loss comes to if the input is not used."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Batch, Model
from deepcanon.diagnosis.given_outputs import loss_of_outputs
from deepcanon.diagnosis.patient import Patient, evaluating
from deepcanon.train import randomness

MOST = 4096
"""So many examples say well enough what a constant answer comes to."""

BATCHES = 8
"""So many batches, where the loss is that of a batch only."""


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
    if patient.criterion is None:
        return _by_outputs(patient, y)
    if not isinstance(split, Batch):
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
    return _by_outputs(patient, y) if patient.task == "classes" and y.ndim == 1 and len(model.turns()) == 1 else None


def _by_outputs(patient: Patient, y: Tensor) -> float | None:
    """The lowest loss of constant outputs on batches of the training's size: of a step, or of a model with more terms.

    A loss may grow with the batch, as a contrastive one does, so that other sizes say nothing.
    """
    if patient.is_game or not isinstance(patient.train_split, Batch) or patient.task == "none":
        return None
    batches = list(itertools.islice(patient.batches(), 1 if patient.whole else BATCHES))
    with evaluating(patient.model):
        output = patient.outputs(patient.model, batches[0])
    if not isinstance(output, Tensor) or len(output) != len(batches[0]) or not output.is_floating_point():
        return None
    losses = [
        [_loss(patient, batch, answer.to(output.dtype)) for batch in batches]
        for answer in _answers(y, tuple(output.shape[1:]))
    ]
    known = [sum(each) / len(each) for each in losses if all(math.isfinite(value) for value in each)]
    return min(known, default=None)


def _loss(patient: Patient, batch: AnyBatch, answer: Tensor) -> float:
    outputs = answer.expand(len(batch), *answer.shape).clone().requires_grad_()
    try:
        with torch.enable_grad(), randomness.kept():
            return float(loss_of_outputs(patient, batch)(outputs).detach())
    except (RuntimeError, ValueError, IndexError, TypeError):
        return math.nan


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
        y = y[y >= 0]  # the others are left out of the loss
        if not shape or not y.numel():
            return [torch.zeros(shape)]
        found = [torch.full(shape, float(y.double().mean())), torch.zeros(shape)]
        for axis in {0, len(shape) - 1}:  # the classes come first, or of each position last
            if int(y.max()) < shape[axis]:
                shares = torch.bincount(y.flatten(), minlength=shape[axis]).double() / y.numel()
                shares = shares.reshape(-1, *[1] * (len(shape) - 1 - axis)).expand(shape)
                found += [shares.clamp_min(1e-6).log(), shares]
        return found
    mean = y.double().mean(0)
    if mean.shape != shape:
        mean = y.double().mean().expand(shape)
    median = y.double().median(0).values if mean.shape == y.shape[1:] else y.double().median().expand(shape)
    odds = (mean.clamp(1e-6, 1 - 1e-6)).logit()
    return [mean, median, odds, torch.zeros(shape)]

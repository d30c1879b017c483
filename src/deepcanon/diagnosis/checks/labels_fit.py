"""Labels that fit the inputs: examples that are alike have labels that are alike.

Measured without the model: how often the nearest neighbor has the same label (of real targets, the correlation with its
target), and the leave-one-out fit of a ridge regression; each against 60 random permutations of the labels, as a number
of their standard deviations. Alarmed where both are below 2.5 with at least 200 examples, and the model itself, trained
on three quarters of them, is no better than the best constant answer on the rest. Of tokens the probes see how often
each occurs. What the order of a sequence says neither probe sees: there the model must have learned those three
quarters by heart, too, in a longer training where needed. Shuffled labels are memorized by a large network all the same
(Zhang et al., Understanding deep learning requires rethinking generalization, 2017, https://arxiv.org/abs/1611.03530),
so that the training loss does not show them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Labeled
from deepcanon.diagnosis.checks import evaluation_mode
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip, evaluating
from deepcanon.diagnosis.rows import WIDEST, labels_of, nearest, one_hot, real_rows, standardized
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "data", 80

DEVIATIONS, FEWEST, MOST, PERMUTATIONS = 2.5, 200, 1500, 60
SEQUENCE = 3
"""The axes of a batch of sequences."""
LONGER = 4
"""So many times longer is a training in which examples are to be learned by heart."""
CHANCE = 0.97
"""What is left at least of the constant answer's loss on held-out examples of which nothing is known."""
MEMORIZED = 0.9
"""What is left at most of the constant answer's loss on examples that are learned by heart."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.whole:
        raise Skip("the examples belong together, so that their labels need not fit each by itself")
    tokens = _are_tokens(patient.train_split)
    rows, y = (
        (_counts(patient.train_split) if tokens else real_rows(patient))[:MOST],
        labels_of(patient.train_split)[:MOST],
    )
    if len(rows) < FEWEST:
        raise Skip(f"{len(rows)} examples are too few to tell")
    if not y.is_floating_point() and len(torch.unique(y)) > len(y) // 5:
        raise Skip("there are too many classes for so few examples")
    if bool((y == y[0]).all()):
        raise Skip("all labels are the same")
    neighbors, linear = probes(rows, y)
    patient.note(neighbors=neighbors, linear=linear)
    if max(neighbors, linear) >= DEVIATIONS:
        return
    if _mixes(patient):
        return  # which another check says: what is learned from a batch says nothing of single examples
    ordered = tokens or patient.train_split.x.ndim == SEQUENCE
    share, learned = _held_out(patient)
    if ordered and share > CHANCE and learned >= MEMORIZED:
        share, learned = _held_out(patient, LONGER)
    patient.note(held_out_share=share, learned_share=learned)
    if share > CHANCE and (not ordered or learned < MEMORIZED):
        yield Diagnosis(
            cause="shuffled labels",
            evidence={
                "nearest_neighbors_in_deviations": neighbors,
                "ridge_in_deviations": linear,
                "held_out_loss_by_constant_answer": share,
            },
            advice="look at how inputs and labels are paired: they may have been sorted or shuffled apart",
            where="labels do not fit the inputs",
            confirmed_by="permuted labels do as well, and the trained model is at chance on held-out examples",
        )


def _mixes(patient: Patient) -> bool:
    """Whether answers depend on what else is in the batch, or was in the one before."""
    try:
        return any(True for _ in evaluation_mode.check(patient))
    except Skip:
        return False


def _are_tokens(split: AnyBatch) -> bool:
    """Whether the inputs are sequences of whole numbers that count something out of a vocabulary."""
    return isinstance(split, Labeled) and split.x.ndim == 2 and not split.x.is_floating_point() and split.x.shape[1] > 1


def _counts(split: AnyBatch) -> Tensor:
    """How often each token occurs in each of the first examples."""
    x = split.x[:MOST].long()
    vocabulary, places = torch.unique(x, return_inverse=True)
    if len(vocabulary) > WIDEST:
        raise Skip(f"{len(vocabulary)} tokens are too many for this check")
    return torch.zeros(len(x), len(vocabulary), dtype=torch.double).scatter_add_(
        1, places, torch.ones_like(places, dtype=torch.double)
    )


def probes(rows: Tensor, y: Tensor) -> tuple[float, float]:
    """By how many standard deviations the labels are nearer than permuted ones: nearest neighbors, and ridge."""
    x, targets = standardized(rows), one_hot(y)
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(len(y), generator=generator) for _ in range(PERMUTATIONS)]
    near = nearest(x)

    def alike(values: Tensor) -> float:
        return float((values * values[near]).sum(1).mean())

    hat = _hat(x)
    free = (1 - hat.diagonal()).clamp_min(1e-6).unsqueeze(1)

    def fit(values: Tensor) -> float:
        return -float(((values - hat @ values) / free).square().mean())

    return _deviations(alike, targets, orders), _deviations(fit, targets, orders)


def _hat(x: Tensor) -> Tensor:
    """The matrix that takes targets to the predictions of a ridge regression with an intercept."""
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
    kernel = x @ x.T
    ridge = 0.1 * float(kernel.diagonal().mean()) * max(1.0, x.shape[1] / len(x))
    hat: Tensor = torch.linalg.solve(kernel + ridge * torch.eye(len(x), dtype=x.dtype), kernel)
    return hat


def _deviations(score, targets: Tensor, orders: list[Tensor]) -> float:  # type: ignore[no-untyped-def]
    null = torch.tensor([score(targets[order]) for order in orders])
    return float((score(targets) - null.mean()) / null.std().clamp_min(1e-12))


def _held_out(patient: Patient, times: int = 1) -> tuple[float, float]:
    """The loss on held-out examples by that of the best constant answer, after a training on the others, and theirs."""
    split = patient.train_split
    if patient.baseline is None or not isinstance(split, Labeled):
        return 1.0, 0.0  # the probes have to suffice
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(0))
    cut = len(order) * 3 // 4

    def learned(batch: AnyBatch) -> AnyBatch:
        return batch.part(order[:cut])

    steps = times * patient.reference.asked
    course = patient.train(steps, change=Change("on three quarters of the examples", on_data=learned))
    if not course.finite:
        return 1.0, 1.0
    rest = split.part(order[cut:])
    judge = patient if patient.criterion is None and patient.ours is None else replace(patient, step=None)
    with evaluating(course.model):
        loss = float(judge.loss(copy.deepcopy(course.model), rest))
    constant = replace(judge, data=replace(patient.data, train=rest)).baseline  # of the same examples
    if constant is None or constant <= 0 or patient.baseline <= 0:
        return 1.0, 0.0
    return loss / constant, course.last / patient.baseline

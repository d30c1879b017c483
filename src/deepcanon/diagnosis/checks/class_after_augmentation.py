"""Augmentation: it keeps the class of an example.

Measured, of models that augment: how often the nearest neighbor of an augmented example among the others has its class,
next to that of the example as it is and chance. Suspected where less than half of what lies above chance is left; named
only if a copy without augmentation (the method's null) leaves half of the loss on the examples as they are, for two
seeds. A turned 6 is a 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from deepcanon.core import Labeled
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip, evaluating

STAGE, PLACE = "data", 85

EXAMPLES, LEFT, FURTHER = 800, 0.5, 2.0


def check(patient: Patient) -> Iterator[Diagnosis]:
    model: Any = patient.ours
    split = patient.train_split
    if model is None or not hasattr(model, "augmented") or not hasattr(type(model), "null"):
        raise Skip("examples are not augmented")
    if not isinstance(split, Labeled) or patient.task != "classes" or split.y.ndim != 1:
        raise Skip("there are no classes of examples")
    some = patient.batch(EXAMPLES)
    assert isinstance(some, Labeled)
    with evaluating(model):
        changed = model.augmented(some.x, Generator().manual_seed(0))
    plain, augmented = _agreement(some.x, some), _agreement(changed, some)
    chance = float((torch.bincount(some.y).double() / len(some)).square().sum())
    left = (augmented - chance) / max(plain - chance, 1e-9)
    patient.note(left=left, as_they_are=plain, augmented=augmented)
    if left >= LEFT or plain - chance < 0.1:
        return
    without = replace(patient, model=type(model)(model.model, **type(model).null))
    ratios = []
    for seed in range(2):
        losses = []
        for each in (patient, without):
            course = each.train(patient.reference.asked, seed=seed)
            with evaluating(course.model):
                losses.append(float(each.loss(course.model, some)))
        ratios.append(losses[0] / max(losses[1], 1e-9))
    patient.note(loss_by_null=min(ratios))
    if min(ratios) >= FURTHER:
        yield Diagnosis(
            cause="augmentation changes the class",
            evidence={
                "neighbors_of_the_class": plain,
                "after_augmentation": augmented,
                "loss_by_that_without": ratios[0],
            },
            advice="augment by less: only by what leaves the class as it is",
            where=type(model).__name__,
            confirmed_by="a copy without augmentation does better on the examples as they are, for two seeds",
            margin=LEFT / max(left, 1e-3),
        )


def _agreement(x: Tensor, among: Labeled) -> float:
    """How often the nearest of the other examples has the same class."""
    distance = torch.cdist(x.flatten(1).double(), among.x.flatten(1).double())
    distance.fill_diagonal_(torch.inf)
    return float((among.y[distance.argmin(1)] == among.y).double().mean())

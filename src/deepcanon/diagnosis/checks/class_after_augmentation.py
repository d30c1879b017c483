"""Augmentation: it keeps the class of an example.

Measured, of models that augment: how often the nearest neighbor of an augmented example among the others has its class,
next to that of the example as it is and chance. Suspected where less than half of what lies above chance is left; named
only if a copy without augmentation leaves half of the loss on the examples as they are, for two seeds: of a method its
null, of a plain module one whose outer module is in evaluation mode, of a step of one's own one whose model is given
the examples themselves. A plain module augments if its first layer gets the examples as they are in evaluation mode and
others in training mode, a step if its model gets others than the step. A turned 6 is a 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import wraps
from statistics import fmean
from typing import Any

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Labeled
from deepcanon.diagnosis.anatomy import recorded
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip, evaluating
from deepcanon.diagnosis.trial import UNCHANGED, Change

STAGE, PLACE = "data", 85

EXAMPLES, LEFT, FURTHER = 800, 0.5, 2.0
STEPS = 4


def check(patient: Patient) -> Iterator[Diagnosis]:
    model: Any = patient.model
    split = patient.train_split
    method = patient.ours is not None
    if method and not (hasattr(model, "augmented") and hasattr(type(model), "null")):
        raise Skip("examples are not augmented")
    if not isinstance(split, Labeled) or patient.task != "classes" or split.y.ndim != 1:
        raise Skip("there are no classes of examples")
    some = patient.batch(EXAMPLES)
    assert isinstance(some, Labeled)
    outside = [] if method else _changed_outside(patient, some)
    if method:
        with evaluating(model):
            changed = [model.augmented(some.x, Generator().manual_seed(0))]
    else:
        changed = outside or [_changed_inside(patient, some)]
    plain, augmented = _agreement(some.x, some), fmean(_agreement(each, some) for each in changed)
    chance = float((torch.bincount(some.y).double() / len(some)).square().sum())
    left = (augmented - chance) / max(plain - chance, 1e-9)
    patient.note(left=left, as_they_are=plain, augmented=augmented)
    if left >= LEFT or plain - chance < 0.1:
        return
    change, without = UNCHANGED, patient
    if method:
        without = replace(patient, model=type(model)(model.model, **type(model).null))
    elif outside:
        without = replace(patient, step=_unaugmented(patient.step))
    else:
        change = Change("without augmentation", on_model=_outer_evaluating)
    ratios = []
    for seed in range(2):
        losses = []
        for each, changes in ((patient, UNCHANGED), (without, change)):
            course = each.train(patient.reference.asked, seed=seed, change=changes)
            with evaluating(course.model):
                losses.append(float((without if outside else each).loss(course.model, some)))
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


def _changed_inside(patient: Patient, some: Labeled) -> Tensor:
    """What the first layer of a plain module gets in training mode, where that is not what it gets in evaluation."""
    model, found = patient.twin(), []
    for training in (True, False):
        with torch.no_grad(), recorded(model.train(training)) as calls:
            patient.outputs(model, some)
        found.append(calls[0].input if calls else None)
    changed, kept = found
    if not isinstance(kept, Tensor) or not torch.equal(kept, some.x):
        raise Skip("its first layer does not get the examples")
    if not isinstance(changed, Tensor) or changed.shape != kept.shape or torch.equal(changed, kept):
        raise Skip("examples are not augmented")
    return changed


def _changed_outside(patient: Patient, some: Labeled) -> list[Tensor]:
    """What several steps of the user's own give to their model in place of the examples; empty where they give them.

    A step may draw for each batch whether to change it, so that some of them say nothing.
    """
    if patient.step is None:
        return []
    model, optimizer = patient.twins()
    given: list[Any] = []
    hook = model.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0] if inputs else None))
    seen = []
    for number in range(1, STEPS + 1):
        given.clear()
        patient.call_step(model, optimizer, some, number)
        if given and isinstance(given[0], Tensor) and given[0].shape == some.x.shape:
            seen.append(given[0].detach())
    hook.remove()
    return [] if all(torch.equal(each, some.x) for each in seen) else seen


def _unaugmented(step: Any) -> Any:
    """The same step, but that its model is given the examples themselves."""

    @wraps(step)
    def plain(model: nn.Module, optimizer: Any, batch: Any, *number: int) -> Any:
        def kept(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            same = bool(inputs) and isinstance(inputs[0], Tensor) and inputs[0].shape == batch.x.shape
            return (batch.x, *inputs[1:]) if same else inputs

        hook = model.register_forward_pre_hook(kept)
        try:
            return step(model, optimizer, batch, *number)
        finally:
            hook.remove()

    return plain


def _outer_evaluating(model: nn.Module) -> None:
    """Put the modules that have layers into evaluation mode, and leave the layers in training mode."""
    for module in model.modules():
        if next(module.children(), None) is not None:
            module.training = False


def _agreement(x: Tensor, among: Labeled) -> float:
    """How often the nearest of the other examples has the same class."""
    distance = torch.cdist(x.flatten(1).double(), among.x.flatten(1).double())
    distance.fill_diagonal_(torch.inf)
    return float((among.y[distance.argmin(1)] == among.y).double().mean())

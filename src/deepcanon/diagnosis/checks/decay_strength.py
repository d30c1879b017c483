"""Weight decay: it holds weights small, not at nothing.

Measured: the weight decay of the optimizer, or the penalty on the weights that the loss of a plain module holds, and
the norm of the weights after a trial by that before. Suspected where the decay is at least 0.01 and the training leaves
more than half of the constant answer's loss or its weights shrink below a third; named only if a copy without weight
decay gains, for two seeds; of a penalty, by the loss without it. Where decay outweighs the gradient all weights go to
0, and the answer is a constant.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from deepcanon.core.options import parse
from deepcanon.diagnosis.checks.penalty_effect import Penalty, penalties_of
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import FURTHER, LITTLE, compare, helps, learns_little
from deepcanon.diagnosis.repairs import NO_DECAY
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "optimizer", 10

LEAST, SHRUNK = 0.01, 0.33


def check(patient: Patient) -> Iterator[Diagnosis]:
    decay = decay_of(patient)
    if decay < LEAST:
        if patient.ours is not None or patient.is_game:
            raise Skip("there is little weight decay, or none")
        yield from _in_the_loss(patient)
        return
    shrinking = _norm(patient.reference.model) / max(_norm(patient.model), 1e-12)
    patient.note(decay=decay, weights_after_by_before=shrinking)
    if shrinking > SHRUNK and not learns_little(patient):
        return
    found = compare(patient, NO_DECAY)
    if helps(patient, found):
        yield Diagnosis(
            cause="weight decay too strong",
            evidence={"weight_decay": decay, "weights_after_by_before": shrinking, **found.evidence()},
            advice="take a weight decay of 0.1 or less (AdamW), 1e-4 or so (SGD, Adam)",
            where="optimizer",
            confirmed_by="a copy without weight decay gains, for two seeds",
        )


def _in_the_loss(patient: Patient) -> Iterator[Diagnosis]:
    """A penalty that is added to the loss by hand, judged by what is left of the loss without it."""
    penalties = {name: each for name, each in penalties_of(patient).items() if each.multiple >= LEAST}
    if not penalties or patient.baseline is None:
        raise Skip("there is little weight decay, or none")

    @torch.no_grad()
    def without(optimizer: torch.optim.Optimizer, _: int) -> None:
        for name, weight in trained["model"].named_parameters():
            if name in penalties and weight.grad is not None:
                weight.grad -= penalties[name].gradient(weight)

    trained: dict[str, nn.Module] = {}
    change = Change("without the penalty", on_model=lambda model: trained.update(model=model), on_step=without)
    fits = []
    for seed in range(2):
        plain = patient.reference if seed == 0 else patient.second_reference
        freed = patient.train(plain.asked, seed=seed, change=change)
        fits.append([_fit(patient, course.model, penalties) for course in (plain, freed)])
    constant = _constant(patient, penalties)
    patient.note(penalty=max(each.multiple for each in penalties.values()), loss_without_it=fits[0][0])
    if all(held > LITTLE * constant and freed < held / FURTHER for held, freed in fits):
        yield Diagnosis(
            cause="weight decay too strong",
            evidence={"multiple_of_the_weights": max(each.multiple for each in penalties.values()),
                      "loss_without_penalty": fits[0][0], "of_a_copy_trained_without_it": fits[0][1]},
            advice="weigh the penalty on the weights by a hundredth or less",
            where=next(iter(penalties)),
            confirmed_by="a copy trained without the penalty gains, for two seeds",
        )  # fmt: skip


def _constant(patient: Patient, penalties: dict[str, Penalty]) -> float:
    """The loss of the best constant answer without the penalties: of weights that are 0, which have none."""
    assert patient.baseline is not None
    weights = dict(patient.model.named_parameters())
    without = patient.baseline - sum(each.value(weights[name].detach()) for name, each in penalties.items())
    model, optimizer = patient.twins()
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    at_zero = replace(patient, model=model, optimizer=optimizer).baseline
    return max(0.0, without if at_zero is None else min(without, at_zero))


def _fit(patient: Patient, model: nn.Module, penalties: dict[str, Penalty]) -> float:
    """The loss of a model without the penalties."""
    weights = dict(model.named_parameters())
    twin = copy.deepcopy(model)
    loss = float(patient.loss(twin, patient.batch()).detach())
    return loss - sum(each.value(weights[name].detach()) for name, each in penalties.items())


def decay_of(patient: Patient) -> float:
    """The weight decay of the optimizer."""
    if patient.optimizer is not None:
        return max(float(group.get("weight_decay", 0.0)) for group in patient.optimizer.param_groups)
    options: dict[str, Any] = parse(str(patient.settings["optimizer"]))[1]
    return float(options.get("weight_decay", 0.0))


def _norm(model: nn.Module) -> float:
    weights = [p.detach() for p in model.parameters() if p.requires_grad and p.is_floating_point()]
    return float(nn.utils.get_total_norm(weights)) if weights else float(torch.zeros(()))

"""Faults of graphs, semi-supervised and self-supervised learning, fine-tuning and distillation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from deepcanon.core import Descend, Turn
from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.catalogue_family import changed, sound_class
from tests.diagnosis.cases.catalogue_recipe import rebuilt
from tests.diagnosis.cases.catalogue_settings import (
    distillation,
    fixmatch,
    gcn,
    measured,
    ours,
    pseudo_label,
    siamese,
    simclr,
)

family = partial(fault, area="family")


@family(gcn, "over-smoothing", "vanishing gradients")
def twenty_graph_layers(patient: Patient) -> None:
    rebuilt(patient, "gcn:dropout=0,hidden=" + "/".join(["16"] * 20))


def graph_attention() -> Patient:
    return ours("graph_attention:hidden=16,heads=2", "block-model", "accuracy", chance=0.25, steps=100)


@family(graph_attention, "over-smoothing", "vanishing gradients")
def sixteen_layers_of_attention(patient: Patient) -> None:
    rebuilt(patient, "graph_attention:heads=2,dropout=0,hidden=" + "/".join(["16"] * 16))


@family(gcn, "label leakage in graph", "label leak")
def classes_among_the_features(patient: Patient) -> None:
    """The one-hot classes of all nodes are features, which no new node will have."""
    for part in (patient.data.train, patient.data.valid, patient.data.test):
        part.x[:, :4] = 3 * functional.one_hot(part.y, 4).float()
    patient.fresh.x[:, :4] = 0


@family(gcn, "label leakage in graph", "overlapping splits")
def test_nodes_trained_on(patient: Patient) -> None:
    """The mask of the training split holds the nodes of the test split, whose labels are partly wrong."""
    train, test = patient.data.train, patient.data.test
    y = train.y.clone()
    wrong = torch.rand(len(y), generator=torch.Generator().manual_seed(0)) < 0.4
    y[wrong] = torch.randint(4, (int(wrong.sum()),), generator=torch.Generator().manual_seed(1))
    patient.data = replace(
        patient.data, train=replace(train, y=y, mask=train.mask | test.mask), test=replace(test, y=y)
    )
    rebuilt(patient, "gcn:hidden=256,dropout=0,decay=0")
    patient.steps = 400

    def kept(p: Patient) -> float:
        model: Any = p.model.eval()
        claimed = float(model.metrics(p.data.test)["accuracy"])
        return float(model.metrics(p.fresh)["accuracy"]) - claimed

    patient.score, patient.chance = kept, 0.0


@family(fixmatch, "pseudo-label drift")
def every_guess_is_believed(patient: Patient) -> None:
    """Without a threshold and with a few wrong labels, mistakes are learned by heart."""
    patient.model.threshold, patient.model.weight = 0.0, 100.0
    y = patient.data.train.y
    y[y > 4] = 0


@family(pseudo_label, "pseudo-label drift")
def guesses_from_the_first_step(patient: Patient) -> None:
    patient.model.begin, patient.model.until, patient.model.weight = 0.0, 1e-3, 300.0


@family(simclr, "embedding collapse")
def only_attraction(patient: Patient) -> None:
    """Two views are drawn together, and nothing is pushed apart."""

    def pretext(self: Any, batch: Any) -> tuple[str, Tensor]:
        one, other = self.embeddings(batch.x)
        return "attraction", (one - other).square().mean() + 0.1 * one.square().mean()

    changed(patient, pretext=pretext)


@family(siamese, "embedding collapse")
def all_pairs_are_alike(patient: Patient) -> None:
    def pretext(self: Any, batch: Any) -> tuple[str, Tensor]:
        features = self.backbone(*batch.inputs)
        alike = functional.softplus(self.distances(features, features) - 1).mean()
        return "pairs", alike + torch.cdist(features, features).mean() + features.square().mean()

    changed(patient, pretext=pretext)


@family(simclr, "embedding collapse", "input not used")
def embeddings_all_alike(patient: Patient) -> None:
    def embeddings(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        one, other = sound_class(self).embeddings(self, x)
        return one.mean(0, keepdim=True) + 1e-5 * one, other.mean(0, keepdim=True) + 1e-5 * other

    changed(patient, embeddings=embeddings)


def _kept(patient: Patient) -> float:
    """One minus how far the pretrained weights have moved, against their own norm."""
    model: Any = patient.model
    before: Any = patient.fresh
    moved = sum(float((a - b).square().sum()) for a, b in zip(_base(model), before, strict=True))
    size = sum(float(b.square().sum()) for b in before)
    return 1 - math.sqrt(moved / size)


def _base(model: Any) -> list[Tensor]:
    named = model.model.named_parameters()
    found = [p for name, p in named if name.endswith("original") or (".down" not in name and ".up" not in name)]
    return [p.detach() for p in found if p.ndim > 1]


def lora() -> Patient:
    patient = ours("lora:model=mlp", "digits", "accuracy", chance=0.1, steps=200)
    patient.fresh = [p.clone() for p in _base(patient.model)]
    patient.score, patient.chance = _kept, 0.0
    return patient


@family(lora, "base drift")
def base_not_frozen(patient: Patient) -> None:
    def turns(self: Any) -> Sequence[Turn[Any]]:
        for parameter in self.parameters():
            parameter.requires_grad_(True)
        return [Descend(self.loss, self.parameters())]

    changed(patient, turns=turns)
    patient.settings["lr"] = 3e-2


def adapters() -> Patient:
    patient = ours("adapters:model=mlp,head=false", "digits", "accuracy", chance=0.1, steps=200)
    patient.score, patient.chance = measured("accuracy", 1.0), 0.1
    return patient


@family(adapters, "base drift")
def adapters_and_all_else(patient: Patient) -> None:
    before = {name: p.detach().clone() for name, p in patient.model.named_parameters() if not p.requires_grad}

    def turns(self: Any) -> Sequence[Turn[Any]]:
        return [Descend(self.loss, self.requires_grad_(True).parameters())]

    def kept(p: Patient) -> float:
        after = dict(p.model.named_parameters())
        moved = sum(float((after[name] - value).norm()) for name, value in before.items())
        return -moved / max(sum(float(value.norm()) for value in before.values()), 1e-9)

    changed(patient, turns=turns)
    patient.settings["lr"] = 3e-2
    patient.score, patient.chance = kept, 0.0


@family(distillation, "distillation without signal")
def teacher_never_taught(patient: Patient) -> None:
    """The teacher is as it was made: what it says of all examples is nearly the same."""
    rebuilt(patient, "distillation:model=mlp,teacher=mlp,weight=1.0,teaching=0")


@family(distillation, "distillation without signal")
def temperature_of_a_million(patient: Patient) -> None:
    """All classes are equally probable in the eyes of the teacher, and the loss is left without its square factor."""

    def distilled(self: Any, *inputs: Tensor) -> Any:
        return sound_class(self).distilled(self, *inputs) / self.temperature**2

    changed(patient, distilled=distilled)
    patient.model.temperature = 1e5


@family(distillation, "distillation without signal")
def teacher_that_answers_one_thing(patient: Patient) -> None:
    rebuilt(patient, "distillation:model=mlp,teacher=mlp,weight=1.0,teaching=0")
    teacher: Any = patient.model.teacher
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.mul_(0)

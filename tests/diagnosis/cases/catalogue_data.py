"""Faults in the data that the catalogue's models are trained on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

import deepcanon as dc
from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.catalogue_recipe import rebuilt
from tests.diagnosis.cases.catalogue_settings import (
    autoencoder_model,
    cnn,
    gcn,
    mlp,
    mlp_on_diabetes,
    mlp_on_houses,
    mlp_on_tumors,
    realnvp,
    vae,
)  # fmt: skip

data = partial(fault, area="data")


def splits(patient: Patient) -> list[Any]:
    """All splits of the data, the training split first."""
    return [part for part in (patient.data.train, patient.data.valid, patient.data.test) if part is not None]


def shuffled(tensor: Tensor, seed: int = 0) -> Tensor:
    """The rows in a random order."""
    return tensor[torch.randperm(len(tensor), generator=torch.Generator().manual_seed(seed))]


@data(mlp, "shuffled labels")
def labels_of_other_digits(patient: Patient) -> None:
    patient.data.train.y.copy_(shuffled(patient.data.train.y))


@data(mlp_on_houses, "shuffled labels")
def prices_of_other_houses(patient: Patient) -> None:
    patient.data.train.y.copy_(shuffled(patient.data.train.y))


@data(gcn, "shuffled labels")
def blocks_at_random(patient: Patient) -> None:
    for part in splits(patient):
        part.y.copy_(torch.randint(4, part.y.shape, generator=torch.Generator().manual_seed(3)))


@data(mlp_on_diabetes, "unscaled inputs")
def columns_in_their_units(patient: Patient) -> None:
    scale = 10 ** torch.linspace(-2, 4, patient.data.train.x.shape[1])
    for part in (*splits(patient), patient.fresh):
        part.x.mul_(scale).add_(3 * scale)


@data(mlp_on_diabetes, "unscaled inputs")
def inputs_in_millions(patient: Patient) -> None:
    for part in (*splits(patient), patient.fresh):
        part.x.mul_(1e6).add_(5e6)


@data(mlp_on_houses, "unscaled targets")
def prices_in_dollars(patient: Patient) -> None:
    for part in (*splits(patient), patient.fresh):
        part.y.mul_(1e5).add_(2e5)
    patient.chance = -1.2e10


@data(mlp_on_diabetes, "unscaled targets")
def targets_far_away(patient: Patient) -> None:
    for part in (*splits(patient), patient.fresh):
        part.y.add_(3000)


@data(mlp_on_tumors, "label leak")
def label_in_a_column(patient: Patient) -> None:
    for part in splits(patient):
        part.x[:, 3] = 40.0 * part.y - 20
    patient.fresh.x[:, 3] = -20.0  # as long as no one knows


@data(mlp_on_houses, "label leak")
def price_in_a_column(patient: Patient) -> None:
    for part in splits(patient):
        part.x[:, 1] = -part.y[:, 0]
    patient.fresh.x[:, 1] = 0


def _seen(patient: Patient) -> float:
    """Minus by how much the test split promises more than examples that were never seen keep."""
    model: Any = patient.model.eval()
    name = "accuracy" if "accuracy" in model.metrics(patient.fresh) else "nll"
    sign = 1 if name == "accuracy" else -1
    honest, claimed = (sign * float(model.metrics(part)[name]) for part in (patient.fresh, patient.data.test))
    return honest - claimed


@data(mlp_on_tumors, "overlapping splits")
def test_rows_from_training(patient: Patient) -> None:
    train = patient.data.train
    noisy = torch.rand(len(train), generator=torch.Generator().manual_seed(0)) < 0.3
    train.y[noisy] = 1 - train.y[noisy]
    rows = torch.arange(100)
    patient.data = replace(patient.data, test=replace(train.select(rows), positions=None))
    rebuilt(patient, "mlp:hidden=512")
    patient.settings["lr"], patient.steps = 1e-2, 600
    patient.score, patient.chance = _seen, 0.0


@data(realnvp, "overlapping splits")
def density_of_seen_points(patient: Patient) -> None:
    few = patient.data.train.x[:60]
    patient.data = dc.from_tensors(few.clone(), valid=few[:30].clone(), test=few[30:].clone())
    patient.score, patient.chance = _seen, 0.0


@data(mlp, "missing class")
def digits_without_some(patient: Patient) -> None:
    train = patient.data.train
    kept = (train.y > 3).nonzero().squeeze(1)
    patient.data = replace(patient.data, train=replace(train.select(kept), positions=None))


@data(mlp_on_tumors, "class imbalance")
def one_class_hardly_there(patient: Patient) -> None:
    train = patient.data.train
    few, many = ((train.y == k).nonzero().squeeze(1) for k in (0, 1))
    x = torch.cat([train.x[few[:2]], train.x[many].repeat(4, 1)])
    x = x + 0.3 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    y = torch.cat([torch.zeros(2), torch.ones(4 * len(many))]).long()
    patient.data = replace(patient.data, train=type(train)(x, y))
    patient.settings |= {"optimizer": "sgd", "lr": 0.01}

    def worst_recall(p: Patient) -> float:
        model: Any = p.model.eval()
        answer = model.predict(p.fresh.x)
        return float(min((answer[p.fresh.y == k] == k).float().mean() for k in (0, 1)))

    patient.score, patient.chance = worst_recall, 0.0


@data(cnn, "shifted splits")
def other_splits_not_scaled(patient: Patient) -> None:
    for part in (patient.data.valid, patient.data.test, patient.fresh):
        part.x.mul_(16).sub_(3)


@data(autoencoder_model, "constant inputs")
def black_images(patient: Patient) -> None:
    patient.data.train.x.zero_()


@data(mlp, "constant inputs")
def images_all_alike(patient: Patient) -> None:
    x = patient.data.train.x
    x.copy_(x[:1].clone().expand_as(x))


@data(mlp_on_houses, "non-finite inputs", "non-finite values")
def entries_not_a_number(patient: Patient) -> None:
    patient.data.train.x[::50, 2] = torch.nan


@data(mlp_on_diabetes, "non-finite targets", "non-finite values")
def targets_infinite(patient: Patient) -> None:
    patient.data.train.y[7] = torch.inf


@data(mlp_on_houses, "out-of-range values", "unscaled inputs")
def sentinel_for_missing(patient: Patient) -> None:
    for part in (*splits(patient), patient.fresh):
        part.x[::12, 0] = -999999.0


@data(cnn, "augmentation changes the class")
def turned_by_any_angle(patient: Patient) -> None:
    rebuilt(patient, "augmentation:model=cnn,rotate=180,translate=0.6,stretch=0.9,shear=3.0,flip=0.5")


@data(vae, "unscaled inputs", "unscaled targets")
def brightness_of_sixteen_bits(patient: Patient) -> None:
    for part in (*splits(patient), patient.fresh):
        part.x.mul_(65535)
    patient.data = replace(patient.data, fresh=None)


@data(mlp_on_tumors, "label noise", "shuffled labels")
def half_of_the_labels_wrong(patient: Patient) -> None:
    y, before = patient.data.train.y, patient.data.train.y.clone()
    for label in (0, 1):
        y[(before == label).nonzero()[::2, 0]] = 1 - label

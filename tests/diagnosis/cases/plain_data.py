"""Faults in the data of plain PyTorch trainings."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.utils.data import DataLoader, TensorDataset

import deepcanon as dc
from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.plain_settings import (
    accuracy,
    autoencoder,
    digits_cnn,
    digits_mlp,
    explained,
    regression,
    sequences,
    tumors,
    two_moons,
)  # fmt: skip

data = partial(fault, area="data", plain=True)


def given(patient: Patient) -> tuple[Tensor, Tensor]:
    """The training examples, to be changed in place."""
    return patient.data.train.x, patient.data.train.labels


@data(regression, "non-finite inputs", "non-finite values")
def missing_entries(patient: Patient) -> None:
    x, y = (part.clone() for part in given(patient))
    x[::97, 2] = torch.nan
    patient.data = (x, y)


@data(sequences, "non-finite inputs", "non-finite values")
def infinite_entry(patient: Patient) -> None:
    x, y = patient.data
    x = x.clone()
    x[17, 3, 1] = torch.inf
    patient.data = TensorDataset(x, y)


@data(regression, "non-finite targets", "non-finite values")
def target_unknown(patient: Patient) -> None:
    x, y = (part.clone() for part in given(patient))
    y[5] = torch.nan
    patient.data = (x, y)


@data(digits_mlp, "constant inputs")
def image_never_loaded(patient: Patient) -> None:
    given(patient)[0].fill_(0.5)


@data(tumors, "constant inputs")
def rows_all_the_first(patient: Patient) -> None:
    x, _ = given(patient)
    x.copy_(x[:1].expand_as(x).clone())


@data(tumors, "unscaled inputs")
def raw_measurements(patient: Patient) -> None:
    """The columns in units from millionths to thousands, as they come from a laboratory."""
    scale = 10 ** torch.linspace(-3, 4, 30)
    for part in (patient.data.train.x, patient.data.valid.x, patient.data.test.x):
        part.mul_(scale).add_(scale)
    patient.fresh = (patient.data.test.x, patient.fresh[1])


@data(regression, "unscaled inputs")
def inputs_in_the_thousands(patient: Patient) -> None:
    for part in (patient.data.train.x, patient.data.valid.x, patient.data.test.x):
        part.mul_(3000).add_(20000)
    patient.fresh = (patient.data.test.x, patient.fresh[1])


@data(autoencoder, "unscaled inputs", "unscaled targets")
def pixels_over_a_bright_ground(patient: Patient) -> None:
    patient.data.mul_(0.1).add_(100)
    patient.fresh = (patient.fresh[0] * 0.1 + 100,)


@data(regression, "unscaled targets")
def prices_in_cents(patient: Patient) -> None:
    for part in (patient.data.train.y, patient.data.valid.y, patient.data.test.y):
        part.mul_(1e5).add_(4e5)
    patient.fresh = (patient.fresh[0], patient.data.test.y)


@data(regression, "unscaled targets")
def targets_far_from_zero(patient: Patient) -> None:
    for part in (patient.data.train.y, patient.data.valid.y, patient.data.test.y):
        part.add_(1e4)
    patient.fresh = (patient.fresh[0], patient.data.test.y)


@data(digits_mlp, "shuffled labels")
def labels_in_another_order(patient: Patient) -> None:
    _, y = given(patient)
    y.copy_(y[torch.randperm(len(y), generator=torch.Generator().manual_seed(7))])


@data(regression, "shuffled labels")
def targets_in_another_order(patient: Patient) -> None:
    _, y = given(patient)
    y.copy_(y[torch.randperm(len(y), generator=torch.Generator().manual_seed(8))])


@data(digits_cnn, "shuffled labels")
def inputs_sorted_without_labels(patient: Patient) -> None:
    x, _ = given(patient)
    x.copy_(x[x.flatten(1).sum(1).argsort()])


@data(tumors, "label leak")
def diagnosis_among_the_features(patient: Patient) -> None:
    """One column is the label, which will not be there for new patients."""
    for part in (patient.data.train, patient.data.valid, patient.data.test):
        part.x[:, 7] = part.y.float() * 40 - 20
    x, y = patient.fresh
    x = x.clone()
    x[:, 7] = 0
    patient.fresh = (x, y)


@data(regression, "label leak")
def target_among_the_features(patient: Patient) -> None:
    for part in (patient.data.train, patient.data.valid, patient.data.test):
        part.x[:, 4] = 2 * part.y[:, 0] + 1
    x, y = patient.fresh
    x = x.clone()
    x[:, 4] = 1
    patient.fresh = (x, y)


def _gap(patient: Patient) -> float:
    """Minus by how much the validation split promises more than fresh data keep."""
    honest = accuracy(patient)
    fresh, patient.fresh = patient.fresh, (patient.data.valid.x, patient.data.valid.y)
    claimed = accuracy(patient)
    patient.fresh = fresh
    return -(claimed - honest)


@data(tumors, "overlapping splits")
def validation_rows_from_training(patient: Patient) -> None:
    x, y = given(patient)
    noisy = torch.rand(len(y), generator=torch.Generator().manual_seed(1)) < 0.3
    y[noisy] = 1 - y[noisy]
    test = patient.fresh
    patient.data = dc.from_tensors(x, y, valid=(x[:100].clone(), y[:100].clone()), test=test)
    patient.model = nn.Sequential(nn.Linear(30, 256), nn.ReLU(), nn.Linear(256, 2))
    patient.optimizer, patient.score, patient.steps = partial(Adam, lr=1e-2), _gap, 800


@data(regression, "overlapping splits")
def half_of_the_test_split_was_seen(patient: Patient) -> None:
    train, valid, test = patient.data.train, patient.data.valid, patient.data.test
    test.x[:200], test.y[:200] = train.x[:200], train.y[:200]
    small = (train.x[:300], train.y[:300])
    patient.data = dc.from_tensors(*small, valid=(valid.x, valid.y), test=(test.x, test.y))

    def score(p: Patient) -> float:
        honest = explained(p)
        kept, p.fresh = p.fresh, (test.x, test.y)
        claimed, p.fresh = explained(p), kept
        return honest - claimed

    patient.fresh = (valid.x, valid.y)
    patient.score = score


@data(digits_mlp, "shifted splits")
def validation_in_negative(patient: Patient) -> None:
    """Black on white to learn from, white on black to be tested on."""
    for part in (patient.data.valid, patient.data.test):
        part.x.mul_(-1).add_(1)
    patient.fresh = (patient.data.test.x, patient.fresh[1])


@data(regression, "shifted splits")
def each_split_from_elsewhere(patient: Patient) -> None:
    for part in (patient.data.valid, patient.data.test):
        part.x.add_(4)
    patient.fresh = (patient.data.test.x, patient.fresh[1])


@data(digits_mlp, "missing class")
def no_sevens_to_learn_from(patient: Patient) -> None:
    train, valid = patient.data.train, patient.data.valid
    keep = train.y < 7
    patient.data = dc.from_tensors(
        train.x[keep], train.y[keep], valid=(valid.x, valid.y), test=(patient.data.test.x, patient.data.test.y)
    )


@data(tumors, "class imbalance")
def hardly_any_ill(patient: Patient) -> None:
    """Six of one class, three hundred times as many of the other: all are called well."""
    x, y = given(patient)
    few, many = x[y == 0][:3], x[y == 1]
    many = torch.cat(
        [many + 0.5 * torch.randn(many.shape, generator=torch.Generator().manual_seed(k)) for k in range(5)]
    )
    labels = torch.cat([torch.zeros(len(few)), torch.ones(len(many))]).long()
    valid = patient.data.valid
    patient.data = dc.from_tensors(torch.cat([few, many]), labels, valid=(valid.x, valid.y))
    patient.optimizer = partial(SGD, lr=0.01)

    def recall(p: Patient) -> float:
        fx, fy = p.fresh
        with torch.no_grad():
            answer = p.model.eval()(fx).argmax(1)
        return float(min((answer[fy == k] == k).float().mean() for k in range(2)))

    patient.score, patient.chance = recall, 0.0


@data(digits_mlp, "sorted examples")
def sorted_and_never_shuffled(patient: Patient) -> None:
    x, y = given(patient)
    order = y.argsort()
    patient.data = DataLoader(TensorDataset(x[order], y[order]), batch_size=64, shuffle=False)
    patient.optimizer = partial(SGD, lr=0.1)


@data(two_moons, "sorted examples")
def one_class_after_the_other(patient: Patient) -> None:
    x, y = given(patient)
    order = y.flatten().argsort(descending=True)
    patient.data = DataLoader(TensorDataset(x[order], y[order]), batch_size=20)
    patient.steps = 6 * len(patient.data)


@data(regression, "out-of-range values", "unscaled inputs")
def code_for_missing(patient: Patient) -> None:
    """What is missing was written as -99999."""
    for part in (patient.data.train.x, patient.data.valid.x, patient.data.test.x):
        part[::15, 3] = -99999.0
    patient.fresh = (patient.data.test.x, patient.fresh[1])
    patient.model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


@data(digits_mlp, "labels out of range")
def labels_from_one_on(patient: Patient) -> None:
    x, y = given(patient)
    patient.data = (x, y + 1)


@data(two_moons, "labels out of range", "output cannot reach targets")
def labels_of_minus_one(patient: Patient) -> None:
    """Targets of -1 and 1, where the loss wants 0 and 1."""
    given(patient)[1].mul_(2).sub_(1)
    patient.loss = nn.functional.binary_cross_entropy_with_logits
    patient.score = lambda p: (
        1
        - float((p.model(p.fresh[0]).sigmoid() - p.fresh[1]).abs().mean())
        - 0.5 * float(p.model(p.fresh[0]).abs().mean() > 20)
    )


@data(digits_cnn, "augmentation changes the class")
def pixels_moved_anywhere(patient: Patient) -> None:
    """An augmentation that was to move the pixels by a little puts them anywhere: nothing of the digit is left."""

    class Moving(nn.Module):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                order = torch.rand(x.shape, device=x.device).flatten(1).argsort(1)
                x = x.flatten(1).gather(1, order).reshape(x.shape)
            out: Tensor = self.net(x)
            return out

    patient.model = Moving(patient.model)

"""Healthy trainings of plain PyTorch modules, which faults then break: data drawn or embedded here, small networks."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import torch
from sklearn.datasets import load_breast_cancer, load_digits, make_moons
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW

import deepcanon as dc
from tests.diagnosis.cases.case import Patient

LETTERS = 12
LENGTH = 24


def accuracy(patient: Patient) -> float:
    """The share of fresh examples that are classified rightly."""
    x, y = patient.fresh
    with torch.no_grad():
        return float((patient.model.eval()(x).argmax(-1) == y).float().mean())


def sureness(patient: Patient) -> float:
    """The mean probability of the right class, by the softmax of the outputs, as the loss sees them."""
    x, y = patient.fresh
    with torch.no_grad():
        return float(patient.model.eval()(x).softmax(-1).gather(1, y.unsqueeze(1)).mean())


def one_by_one(patient: Patient, size: int = 1) -> float:
    """The share of fresh examples that are classified rightly, each alone or a few at a time."""
    x, y = patient.fresh
    with torch.no_grad():
        alone = torch.cat([patient.model.eval()(part) for part in x[: len(x) // size * size].split(size)])
    return float((alone.argmax(-1) == y[: len(alone)]).float().mean())


def explained(patient: Patient) -> float:
    """The share of the variance of fresh targets that is explained."""
    x, y = patient.fresh
    with torch.no_grad():
        error = (patient.model.eval()(x).reshape(y.shape) - y).square().mean()
    found = float(1 - error / y.var())
    return found if math.isfinite(found) else -1e9


def minus_loss(patient: Patient) -> float:
    """Minus the loss of fresh examples."""
    assert patient.loss is not None
    x, *others = patient.fresh
    with torch.no_grad():
        value = -float(patient.loss(patient.model.eval()(x), others[0] if others else x))
    return value if math.isfinite(value) else -1e9


@cache
def _digits() -> tuple[Tensor, Tensor]:
    bunch = load_digits()
    x, y = torch.tensor(bunch.data, dtype=torch.float32) / 16, torch.tensor(bunch.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return x[order], y[order]


def _split(x: Tensor, y: Tensor, train: int, valid: int) -> tuple[dc.data.Dataset[Any], tuple[Tensor, Tensor]]:
    parts = [(x[a:b].clone(), y[a:b].clone()) for a, b in ((0, train), (train, valid), (valid, None))]
    return dc.from_tensors(*parts[0], valid=parts[1], test=parts[2]), parts[2]


def digits_mlp() -> Patient:
    """Handwritten digits, a perceptron with two hidden layers, Adam."""
    data, fresh = _split(*_digits(), 1200, 1500)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return Patient(
        net, data, accuracy, 0.1, fresh, nn.CrossEntropyLoss(), partial(Adam, lr=3e-3), settings={"batch_size": 64}
    )


class ConvNet(nn.Module):
    """Two convolutions with batch normalization, dropout and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.dropout = nn.Dropout(0.25)
        self.head = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.dropout(self.features(x).flatten(1)))
        return out


def digits_cnn() -> Patient:
    """Handwritten digits as images, a convolutional network with batch normalization and dropout, SGD."""
    x, y = _digits()
    data, fresh = _split(x.reshape(-1, 1, 8, 8), y, 1200, 1500)
    return Patient(
        ConvNet(), data, accuracy, 0.1, fresh, nn.CrossEntropyLoss(), partial(SGD, lr=0.05, momentum=0.9),
        settings={"batch_size": 64}, steps=200,
    )  # fmt: skip


@cache
def _surface() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    x = torch.randn(2400, 6, generator=random)
    y = torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] - 0.5 * x[:, 3] + 0.1 * torch.randn(2400, generator=random)
    return x, y.unsqueeze(1)


def regression() -> Patient:
    """A smooth function of six features, a perceptron, the squared error, Adam."""
    data, fresh = _split(*_surface(), 1600, 2000)
    net = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    return Patient(
        net, data, explained, 0.0, fresh, nn.MSELoss(), partial(Adam, lr=5e-3), settings={"batch_size": 64}, steps=600
    )


def right_side(patient: Patient) -> float:
    """The share of fresh examples on whose side of zero the output is."""
    x, y = patient.fresh
    with torch.no_grad():
        return float(((patient.model.eval()(x) > 0).float() == y).float().mean())


def two_moons() -> Patient:
    """Two moons, a binary classifier of one logit, AdamW."""
    points, labels = make_moons(1500, noise=0.15, random_state=0)
    x, y = torch.tensor(points, dtype=torch.float32), torch.tensor(labels, dtype=torch.float32).unsqueeze(1)
    data, fresh = _split(x, y, 900, 1200)
    net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    return Patient(
        net, data, right_side, 0.5, fresh, nn.BCEWithLogitsLoss(), partial(AdamW, lr=1e-2),
        settings={"batch_size": 50},
    )  # fmt: skip


def tumors() -> Patient:
    """A table of 30 standardized measurements, logistic regression with two logits, SGD."""
    bunch = load_breast_cancer()
    x, y = torch.tensor(bunch.data, dtype=torch.float32), torch.tensor(bunch.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x = (x - x.mean(0)) / x.std(0)
    data, fresh = _split(x[order], y[order], 350, 450)
    net = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    return Patient(
        net, data, accuracy, 0.63, fresh, nn.CrossEntropyLoss(), partial(SGD, lr=0.1), settings={"batch_size": 32}
    )


@cache
def letters() -> Tensor:
    """Sequences of a Markov chain of second order: the sum of the last two letters, or a random one."""
    random = torch.Generator().manual_seed(2)
    x = torch.randint(LETTERS, (1200, LENGTH + 1), generator=random)
    for t in range(2, LENGTH + 1):
        noisy = torch.rand(len(x), generator=random) < 0.1
        x[:, t] = torch.where(noisy, x[:, t], (x[:, t - 1] + x[:, t - 2]) % LETTERS)
    return x


class TinyTransformer(nn.Module):
    """A transformer language model of one layer; ``causal`` says whether it masks what comes later."""

    def __init__(self, causal: bool = True, width: int = 48) -> None:
        super().__init__()
        self.causal = causal
        self.tokens, self.places = nn.Embedding(LETTERS, width), nn.Embedding(LENGTH, width)
        self.block = nn.TransformerEncoderLayer(width, 4, 96, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, LETTERS)

    def forward(self, x: Tensor) -> Tensor:
        h = self.tokens(x) + self.places.weight[: x.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        out: Tensor = self.head(self.block(h, src_mask=mask, is_causal=self.causal))
        return out


def token_loss(logits: Tensor, y: Tensor) -> Tensor:
    """The cross-entropy of tokens."""
    return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def continued(patient: Patient) -> float:
    """How often the greedy next letter is right, where later letters are not known yet."""
    x = patient.fresh[0].clone()
    y = x[:, 12].clone()
    x[:, 12:] = 0
    with torch.no_grad():
        return float((patient.model.eval()(x)[:, 11].argmax(-1) == y).float().mean())


def letter_model() -> Patient:
    """A transformer language model of drawn letters, AdamW."""
    x = letters()
    data = (x[:1000, :-1].clone(), x[:1000, 1:].clone())
    return Patient(
        TinyTransformer(), data, continued, 1 / LETTERS, (x[1000:, :-1],), token_loss, partial(AdamW, lr=3e-3),
        settings={"batch_size": 50}, steps=500,
    )  # fmt: skip


class Recurrent(nn.Module):
    """A GRU that reads a sequence and classifies it by its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(3, 32, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.gru(x)[0][:, -1])
        return out


def sequences() -> Patient:
    """Short series of three channels; the class is the channel of the largest mean; a GRU, Adam."""
    random = torch.Generator().manual_seed(3)
    x = torch.randn(1500, 12, 3, generator=random)
    y = x.mean(1).argmax(1)
    return Patient(
        Recurrent(), (x[:1200], y[:1200]), accuracy, 1 / 3, (x[1200:], y[1200:]), nn.CrossEntropyLoss(),
        partial(Adam, lr=5e-3), settings={"batch_size": 50},
    )  # fmt: skip


def autoencoder() -> Patient:
    """An autoencoder of the digits with a code of 12 numbers, Adam."""
    x, _ = _digits()
    net = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 12), nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64)
    )

    def score(patient: Patient) -> float:
        fresh: Tensor = patient.fresh[0]
        with torch.no_grad():
            return float(1 - (patient.model.eval()(fresh) - fresh).square().mean() / fresh.var(0).mean())

    return Patient(net, x[:1400], score, 0.0, (x[1400:],), nn.MSELoss(), partial(Adam, lr=3e-3), steps=500)

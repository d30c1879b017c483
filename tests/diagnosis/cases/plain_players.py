"""Faults of trainings in plain PyTorch in which several networks, or all rows at once, take part."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import binary_cross_entropy_with_logits as judged
from torch.optim import SGD, Adam, Optimizer

from deepcanon.losses.energy_distance import energy_distance
from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.plain_family import digits_vae
from tests.diagnosis.cases.plain_settings import (
    _digits,
    _split,
    accuracy,
    digits_cnn,
    digits_mlp,
    right_side,
    two_moons,
)

family = partial(fault, area="family", plain=True)
recipe = partial(fault, area="recipe", plain=True)
data = partial(fault, area="data", plain=True)


def perceptron(*widths: int) -> nn.Sequential:
    layers = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


class Game(nn.Module):
    """A generator and a discriminator of points in the plane."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.discriminator = perceptron(8, 64, 64, 2), perceptron(2, 64, 64, 1)

    def forward(self, z: Tensor) -> Tensor:
        points: Tensor = self.generator(z)
        return points


def play(
    model: Any,
    optimizer: Optimizer,
    x: Any,
    *,
    noise: Callable[..., Tensor] = torch.randn,
    turns: int = 1,
    saturating: bool = False,
) -> Tensor:
    """A step of each player, or several of the discriminator."""
    x = x[0] if isinstance(x, tuple | list) else x
    real, fake = torch.ones(len(x), 1), torch.zeros(len(x), 1)
    for _ in range(turns):
        optimizer.zero_grad()
        drawn = model(noise(len(x), 8)).detach()
        loss = judged(model.discriminator(x), real) + judged(model.discriminator(drawn), fake)
        loss.backward()
        optimizer.step()
    optimizer.zero_grad()
    said = model.discriminator(model(noise(len(x), 8)))
    (-judged(said, fake) if saturating else judged(said, real)).backward()
    for parameter in model.discriminator.parameters():
        parameter.grad = None
    optimizer.step()
    return loss.detach()


def nearness(patient: Patient) -> float:
    """Minus the energy distance between samples and fresh points."""
    (x,) = patient.fresh
    with torch.no_grad():
        drawn = patient.model.eval()(torch.randn(len(x), 8, generator=torch.Generator().manual_seed(0)))
    return -float(energy_distance(drawn, x))


def moons_game() -> Patient:
    """Points of two moons, a generator and a discriminator in a step of one's own, Adam."""
    x = torch.tensor(make_moons(2000, noise=0.05, random_state=0)[0], dtype=torch.float32)
    optimizer = partial(Adam, lr=1e-3, betas=(0.5, 0.99))
    return Patient(Game(), x[:1500], nearness, None, (x[1500:],), None, optimizer, play,
                   settings={"batch_size": 128}, steps=1000)  # fmt: skip


@family(moons_game, "mode dropping")
def generator_without_noise(patient: Patient) -> None:
    patient.step = partial(play, noise=torch.zeros)


@family(moons_game, "discriminator wins", "vanishing generator gradient")
def saturating_loss_against_a_strong_discriminator(patient: Patient) -> None:
    patient.data = patient.data + 10.0
    patient.fresh = (patient.fresh[0] + 10.0,)
    patient.step = partial(play, turns=3, saturating=True)

    def paces(parameters: Any) -> Optimizer:
        of_generator, of_discriminator = (list(parameters)[start : start + 6] for start in (0, 6))
        return SGD([{"params": of_generator, "lr": 1e-3}, {"params": of_discriminator, "lr": 0.1}])

    patient.optimizer = lambda parameters: paces(list(parameters))


@cache
def _teacher() -> nn.Sequential:
    torch.manual_seed(0)
    teacher = perceptron(64, 128, 10)
    optimizer = Adam(teacher.parameters(), lr=3e-3)
    x, y = _digits()
    for _ in range(200):
        optimizer.zero_grad()
        functional.cross_entropy(teacher(x[:1200]), y[:1200]).backward()
        optimizer.step()
    return teacher.requires_grad_(False)


def taught(teacher: nn.Module, temperature: float = 2.0) -> Callable[..., Tensor]:
    """A step that gives a student the softened answers of a teacher."""

    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        optimizer.zero_grad()
        with torch.no_grad():
            wanted = (teacher(batch[0]) / temperature).softmax(1)
        said = (model(batch[0]) / temperature).log_softmax(1)
        loss = temperature**2 * functional.kl_div(said, wanted, reduction="batchmean")
        loss.backward()
        optimizer.step()
        return loss

    return step


def digits_student() -> Patient:
    """A small student of the digits, which learns from the answers of a larger network alone, Adam."""
    parts, fresh = _split(*_digits(), 1200, 1500)
    return Patient(perceptron(64, 32, 10), parts, accuracy, 0.1, fresh, None, partial(Adam, lr=3e-3),
                   taught(_teacher()), settings={"batch_size": 64})  # fmt: skip


@family(digits_student, "distillation without signal")
def teacher_that_was_never_trained(patient: Patient) -> None:
    patient.step = taught(perceptron(64, 128, 10).requires_grad_(False))


class Convolutions(nn.Module):
    """Graph convolutions over edges that the module holds, so that it takes all nodes at once."""

    def __init__(self, edges: Tensor, layers: int) -> None:
        super().__init__()
        self.register_buffer("edges", edges)
        widths = [8, *[16] * (layers - 1), 3]
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        for place, layer in enumerate(self.layers):
            x = self.edges @ layer(x if place == 0 else x.relu())
        return x


@cache
def _blocks() -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(150) % 3
    linked = torch.where(y.unsqueeze(1) == y, 0.15, 0.01)
    edges = (torch.rand(150, 150, generator=draw) < linked).float().triu(1)
    edges = edges + edges.T + torch.eye(150)
    scale = edges.sum(1).rsqrt()
    x = torch.randn(150, 8, generator=draw)
    x[torch.arange(150), y] += 1.0
    return scale.unsqueeze(1) * edges * scale, x, y


def few_labels(outputs: Tensor, y: Tensor) -> Tensor:
    """The cross-entropy of the first nodes, whose labels are known."""
    return functional.cross_entropy(outputs[:30], y[:30])


def block_graph() -> Patient:
    """The nodes of three blocks, two graph convolutions by hand, labels of a few nodes, Adam."""
    edges, x, y = _blocks()
    return Patient(Convolutions(edges, 2), (x, y), accuracy, 1 / 3, (x, y), few_labels, partial(Adam, lr=1e-2),
                   settings={"batch_size": 150}, steps=200)  # fmt: skip


@family(block_graph, "over-smoothing")
def forty_convolutions(patient: Patient) -> None:
    patient.model = Convolutions(_blocks()[0], 40)


@family(digits_vae, "posterior collapse", "wrong reduction")
def mean_over_the_pixels_in_a_step(patient: Patient) -> None:
    def step(model: nn.Module, optimizer: Optimizer, x: Any) -> Tensor:
        x = x[0] if isinstance(x, tuple | list) else x
        optimizer.zero_grad()
        again, mean, log_variance = model(x)
        kl = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        loss: Tensor = functional.mse_loss(again, x) + kl
        loss.backward()
        optimizer.step()
        return loss

    patient.loss, patient.step = None, step


@recipe(digits_mlp, "weight decay too strong")
def absolute_values_added_in_a_step(patient: Patient) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(batch[0]), batch[1]) + sum(p.abs().sum() for p in model.parameters())
        loss.backward()
        optimizer.step()
        return loss

    patient.loss, patient.step = None, step


@recipe(digits_mlp, "bad initialization", "vanishing gradients")
def tiny_weights_of_many_layers(patient: Patient) -> None:
    patient.model = perceptron(64, *[64] * 8, 10)
    for parameter in patient.model.parameters():
        nn.init.normal_(parameter, std=1e-4)
    patient.optimizer = partial(SGD, lr=0.05, momentum=0.9)


@recipe(digits_mlp, "exploding gradients")
def recurrence_that_enlarges(patient: Patient) -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer, self.state = nn.Linear(1, 16), nn.Linear(16, 10), nn.Parameter(1.8 * torch.eye(16))

        def forward(self, x: Tensor) -> Tensor:
            h = torch.zeros(len(x), 16)
            for place in range(x.shape[1]):
                h = torch.relu(h @ self.state + self.inner(x[:, place : place + 1]))
            out: Tensor = self.outer(h)
            return out

    patient.model = Recurrent()


@data(digits_cnn, "augmentation changes the class")
def rows_of_pictures_mixed_by_the_batch(patient: Patient) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        x, y = batch
        if random.random() < 0.95:
            x = x[:, :, torch.randperm(8)][..., torch.randperm(8)]
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    patient.loss, patient.step = None, step


@data(two_moons, "class imbalance")
def ones_are_rare(patient: Patient) -> None:
    x, y = patient.data.train.x, patient.data.train.y
    chosen = torch.cat([(y[:, 0] == 0).nonzero()[:, 0], (y[:, 0] == 1).nonzero()[:12, 0]])
    patient.data = (x[chosen], y[chosen])
    patient.optimizer = partial(Adam, lr=3e-4)

    def of_ones(p: Patient) -> float:
        ones = p.fresh[1][:, 0] == 1
        other = Patient(p.model, None, right_side, fresh=(p.fresh[0][ones], p.fresh[1][ones]))
        return right_side(other)

    patient.score, patient.chance = of_ones, 0.0

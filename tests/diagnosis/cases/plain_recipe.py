"""Faults in the recipe of plain PyTorch trainings: rates, starts, depth, regularization."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW, Optimizer

from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.plain_settings import (
    autoencoder,
    digits_cnn,
    digits_mlp,
    letter_model,
    regression,
    sequences,
    tumors,
    two_moons,
)  # fmt: skip

recipe = partial(fault, area="recipe", plain=True)


@recipe(digits_mlp, "learning rate too high")
def adam_at_one(patient: Patient) -> None:
    patient.optimizer = partial(Adam, lr=1.0)


@recipe(regression, "learning rate too high")
def sgd_that_explodes(patient: Patient) -> None:
    patient.optimizer = partial(SGD, lr=5.0)


@recipe(letter_model, "learning rate too high")
def transformer_at_a_tenth(patient: Patient) -> None:
    patient.optimizer = partial(AdamW, lr=0.3)


@recipe(digits_cnn, "learning rate too low")
def sgd_at_a_millionth(patient: Patient) -> None:
    patient.optimizer = partial(SGD, lr=1e-6)


@recipe(two_moons, "learning rate too low")
def adam_at_a_ten_millionth(patient: Patient) -> None:
    patient.optimizer = partial(Adam, lr=1e-7)


@recipe(sequences, "learning rate too low")
def recurrent_at_a_crawl(patient: Patient) -> None:
    patient.optimizer = partial(Adam, lr=3e-7)


@recipe(digits_mlp, "weight decay too strong")
def decay_of_ten(patient: Patient) -> None:
    patient.optimizer = partial(Adam, lr=3e-3, weight_decay=10.0)


@recipe(tumors, "weight decay too strong")
def decay_by_sgd(patient: Patient) -> None:
    patient.optimizer = partial(SGD, lr=0.1, weight_decay=3.0)


@recipe(digits_mlp, "symmetric start", "bad initialization")
def all_weights_zero(patient: Patient) -> None:
    for parameter in patient.model.parameters():
        nn.init.zeros_(parameter)


@recipe(regression, "symmetric start", "bad initialization")
def all_weights_alike(patient: Patient) -> None:
    for layer in patient.model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.weight, 0.05)


@recipe(regression, "saturated units", "bad initialization")
def tanh_far_out(patient: Patient) -> None:
    for layer in patient.model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=20.0)


@recipe(digits_mlp, "bad initialization", "exploding gradients")
def relu_far_out(patient: Patient) -> None:
    for layer in patient.model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=30.0)
    patient.optimizer = partial(Adam, lr=1e-3)


def _deep(depth: int, width: int, activation: type[nn.Module], outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(64, width), activation()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), activation()]
    return nn.Sequential(*layers, nn.Linear(width, outputs))


@recipe(digits_mlp, "vanishing gradients")
def fifteen_layers_of_sigmoids(patient: Patient) -> None:
    patient.model = _deep(15, 32, nn.Sigmoid, 10)
    patient.optimizer = partial(SGD, lr=0.1)


@recipe(autoencoder, "vanishing gradients")
def thirty_layers_of_tanh(patient: Patient) -> None:
    patient.model = _deep(30, 24, nn.Tanh, 64)
    for layer in patient.model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.uniform_(layer.weight, -0.05, 0.05)


@recipe(digits_mlp, "exploding gradients", "bad initialization")
def weights_that_grow_with_depth(patient: Patient) -> None:
    patient.model = _deep(12, 64, nn.ReLU, 10)
    for layer in patient.model.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=1.0)
    patient.optimizer = partial(SGD, lr=0.01)


@recipe(digits_mlp, "dead units")
def biases_far_below_zero(patient: Patient) -> None:
    patient.model[2].bias.data.fill_(-100.0)


@recipe(digits_cnn, "dead units", "bad initialization")
def convolutions_that_never_fire(patient: Patient) -> None:
    patient.model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    patient.model[0].bias.data.fill_(-20.0)


@recipe(digits_mlp, "dropout too strong")
def nearly_all_is_dropped(patient: Patient) -> None:
    first, _, second, _, last = patient.model
    patient.model = nn.Sequential(first, nn.ReLU(), nn.Dropout(0.99), second, nn.ReLU(), nn.Dropout(0.99), last)


@recipe(digits_mlp, "schedule ends too early")
def rate_gone_after_ten_steps(patient: Patient) -> None:
    loss = nn.CrossEntropyLoss()
    patient.optimizer = partial(SGD, lr=0.1)

    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        optimizer.zero_grad()
        value: Tensor = loss(model(batch[0]), batch[1])
        value.backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.3
        return value

    patient.step = step


@recipe(tumors, "clipping too strong", "learning rate too low")
def clipped_to_nothing(patient: Patient) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        optimizer.zero_grad()
        value = functional.cross_entropy(model(batch[0]), batch[1])
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-7)
        optimizer.step()
        return value

    patient.step = step


@recipe(two_moons, "momentum too high", "learning rate too high")
def momentum_of_one(patient: Patient) -> None:
    patient.optimizer = partial(SGD, lr=0.5, momentum=0.999)


@recipe(regression, "bottleneck/underfitting", "dead units")
def one_unit_wide(patient: Patient) -> None:
    patient.model = nn.Sequential(nn.Linear(6, 1), nn.Tanh(), nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 1))

"""Faults in the training loops of plain PyTorch: gradients, steps and optimizers."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, Optimizer

from tests.diagnosis.cases.case import Patient, fault
from tests.diagnosis.cases.plain_settings import digits_cnn, digits_mlp, regression, tumors, two_moons

code = partial(fault, area="code", plain=True)


@code(digits_mlp, "missing zero_grad")
def no_zero_grad(patient: Patient) -> None:
    loss = nn.CrossEntropyLoss()

    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        value: Tensor = loss(model(batch[0]), batch[1])
        value.backward()
        optimizer.step()
        return value

    patient.optimizer, patient.step = partial(SGD, lr=0.1), step


@code(regression, "missing zero_grad")
def gradients_of_all_steps(patient: Patient) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        x, y = batch
        value = functional.mse_loss(model(x), y)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return value

    patient.optimizer, patient.step = partial(SGD, lr=0.05, momentum=0.9), step


@code(digits_cnn, "gradients cleared before step")
def zero_grad_after_backward(patient: Patient) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        value = functional.cross_entropy(model(batch[0]), batch[1])
        value.backward()
        optimizer.zero_grad()
        optimizer.step()
        return value

    patient.step = step


@code(two_moons, "gradients cleared before step", "parameters do not change")
def no_step_of_the_optimizer(patient: Patient) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        optimizer.zero_grad()
        value = functional.binary_cross_entropy_with_logits(model(batch[0]), batch[1])
        value.backward()
        return value

    patient.step = step


@code(digits_mlp, "parameters not in the optimizer")
def optimizer_of_another_network(patient: Patient) -> None:
    other = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    patient.optimizer = lambda _: Adam(other.parameters(), lr=3e-3)


@code(digits_cnn, "parameters not in the optimizer")
def optimizer_of_the_head_alone(patient: Patient) -> None:
    """The body is new and random, and was forgotten; it is deep enough that the head alone cannot make up for it."""
    patient.model = nn.Sequential(nn.Flatten(), *(layer for _ in range(3) for layer in (nn.Linear(64, 64), nn.Tanh())),
                                  nn.Linear(64, 3), nn.Tanh(), nn.Linear(3, 10))  # fmt: skip
    last = patient.model[-1]
    patient.optimizer = lambda _: SGD(last.parameters(), lr=0.05, momentum=0.9)


@code(tumors, "detached graph", "parameters do not change")
def loss_made_anew(patient: Patient) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
        optimizer.zero_grad()
        value = torch.tensor(functional.cross_entropy(model(batch[0]), batch[1]).item(), requires_grad=True)
        value.backward()
        optimizer.step()
        return value

    patient.step = step

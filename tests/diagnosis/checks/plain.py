"""Small trainings of plain modules for the tests of the doctor's checks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from deepcanon.diagnosis.admission import admit
from deepcanon.diagnosis.doctor import examine
from deepcanon.diagnosis.health_report import Report
from deepcanon.diagnosis.patient import Patient
from tests.diagnosis.checks.planted import NO_CLOCK

_DRAW = torch.Generator().manual_seed(0)
X = torch.randn(600, 10, generator=_DRAW)
CLASSES = (X @ torch.randn(10, 3, generator=_DRAW)).argmax(1)
TARGETS = X[:, :3].sum(1, keepdim=True) + 0.1 * torch.randn(600, 1, generator=_DRAW)
BITS = (TARGETS > 0).float()
CROSS_ENTROPY = nn.CrossEntropyLoss()


def net(outputs: int = 3, *, hidden: int = 32, activation: type[nn.Module] = nn.ReLU, layers: int = 2) -> nn.Sequential:
    """A multilayer perceptron of 10 features, with the same weights at every call."""
    torch.manual_seed(0)
    parts: list[nn.Module] = [nn.Linear(10, hidden), activation()]
    for _ in range(layers - 1):
        parts += [nn.Linear(hidden, hidden), activation()]
    return nn.Sequential(*parts, nn.Linear(hidden, outputs))


def adam(model: nn.Module, lr: float = 1e-2, **options: Any) -> Adam:
    return Adam(model.parameters(), lr=lr, **options)


def sgd(model: nn.Module, lr: float = 0.1, **options: Any) -> SGD:
    return SGD(model.parameters(), lr=lr, **options)


def report(
    check: str,
    model: nn.Module,
    data: Any = (X, CLASSES),
    *,
    loss: Callable[..., Tensor] | None = CROSS_ENTROPY,
    optimizer: Optimizer | None = None,
    step: Callable[..., Any] | None = None,
    steps: int = 80,
    **settings: Any,
) -> Report:
    """What one check says of a training; its trials have so many steps, however long these take."""
    patient = admit(
        model, data, loss=loss, optimizer=optimizer or adam(model), step=step, budget=NO_CLOCK, settings=settings
    )
    course = cached_property(lambda self: self.train(steps))
    with patch.object(Patient, "reference", course):
        course.__set_name__(Patient, "reference")
        return examine(patient, only=[check])


def causes(*arguments: Any, **named: Any) -> list[str]:
    """The causes that one check names."""
    found = report(*arguments, **named)
    assert not any("could not" in reason for reason in found.skipped.values()), found.skipped
    return [finding.cause for finding in found]

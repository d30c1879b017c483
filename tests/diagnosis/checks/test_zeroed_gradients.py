from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor, nn
from torch.optim import Optimizer

from tests.diagnosis.checks.plain import CROSS_ENTROPY, causes, net


def plain(model: nn.Module, optimizer: Optimizer, batch: Any) -> Tensor:
    optimizer.zero_grad()
    loss: Tensor = CROSS_ENTROPY(model(batch.x), batch.y)
    loss.backward()
    optimizer.step()
    return loss


def accumulating(model: nn.Module, optimizer: Optimizer, batch: Any, number: int) -> None:
    (CROSS_ENTROPY(model(batch.x), batch.y) / 4).backward()
    if number % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()


def adding_up(model: nn.Module, optimizer: Optimizer, batch: Any) -> None:
    CROSS_ENTROPY(model(batch.x), batch.y).backward()
    optimizer.step()


def cleared(model: nn.Module, optimizer: Optimizer, batch: Any) -> None:
    CROSS_ENTROPY(model(batch.x), batch.y).backward()
    optimizer.zero_grad()
    optimizer.step()


def resting(model: nn.Module, optimizer: Optimizer, batch: Any) -> None:
    optimizer.zero_grad()
    CROSS_ENTROPY(model(batch.x), batch.y).backward()


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (plain, []),
        (accumulating, []),
        (adding_up, ["missing zero_grad"]),
        (cleared, ["gradients cleared before step"]),
        (resting, ["parameters do not change"]),
    ],
)
def test_what_a_step_does_with_gradients_is_seen(step: Any, found: list[str]) -> None:
    assert causes("zeroed_gradients", net(), step=step) == found

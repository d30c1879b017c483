from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from deepcanon.core import AnyBatch, Terms
from deepcanon.methods import Regularized
from tests.diagnosis.checks.plain import CROSS_ENTROPY, adam, net
from tests.diagnosis.checks.plain import causes as causes_of_plain
from tests.diagnosis.checks.planted import causes, report_of


def test_a_penalty_that_is_subtracted_is_seen() -> None:
    def loss(self: Any, batch: AnyBatch) -> Terms:
        fit, whole = self.model.loss(batch), Regularized.loss(self, batch)
        return {name: value if name in fit else -value for name, value in whole.items()}

    model = "regularized:model=mlp,l2=0.01"
    assert causes(report_of("penalty_effect", model, "digits", steps=5)) == []
    assert causes(report_of("penalty_effect", model, "digits", steps=5, methods={"loss": loss})) == [
        "penalty with the wrong sign"
    ]


def test_a_model_without_a_penalty_is_not_examined() -> None:
    assert "no penalty" in report_of("penalty_effect", "mlp", "digits").skipped["penalty_effect"]


def squares(model: nn.Module) -> Tensor:
    return torch.stack([p.square().sum() for p in model.parameters()]).sum()


def absolutes(model: nn.Module) -> Tensor:
    return torch.stack([p.abs().sum() for p in model.parameters()]).sum()


def far_from_orthogonal(model: nn.Module) -> Tensor:
    """Which rewards weights that grow as long as they are small."""
    weights = [p for p in model.parameters() if p.ndim == 2]
    return torch.stack([(w @ w.T - 100 * torch.eye(len(w))).square().sum() for w in weights]).sum()


@pytest.mark.parametrize(
    ("penalty", "weight", "found"),
    [
        (squares, 1e-3, []),
        (squares, -1e-3, ["penalty with the wrong sign"]),
        (absolutes, -1e-4, ["penalty with the wrong sign"]),
        (far_from_orthogonal, 1e-4, []),
        (squares, 0.0, []),
    ],
)
def test_a_step_that_subtracts_a_penalty_is_seen(
    penalty: Callable[[nn.Module], Tensor], weight: float, found: list[str]
) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> None:
        optimizer.zero_grad()
        (CROSS_ENTROPY(model(batch.x), batch.y) + weight * penalty(model)).backward()
        optimizer.step()

    model = net()
    assert causes_of_plain("penalty_effect", model, optimizer=adam(model), step=step) == found

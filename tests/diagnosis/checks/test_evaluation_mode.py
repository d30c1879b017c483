from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from tests.diagnosis.checks.plain import CROSS_ENTROPY, X, causes, net


class Dropping(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self[4](functional.dropout(self[2](self[0](x).relu()), 0.5))
        return out


class Noisy(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(x + torch.randn_like(x))  # type: ignore[no-untyped-call]
        return out


def normalized(**options: Any) -> nn.Sequential:
    return nn.Sequential(nn.Linear(10, 8), nn.BatchNorm1d(8, **options), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (Dropping(*net()), ["train mode in evaluation"]),
        (Noisy(*net()), ["train mode in evaluation"]),
        (nn.Sequential(net(), nn.Dropout(0.5)), []),
        (normalized(), []),
        (normalized(track_running_stats=False), ["train mode in evaluation"]),
        (nn.Sequential(net(), nn.Softmax(dim=0)), ["examples mix within a batch"]),
        (nn.Sequential(net(), nn.LayerNorm(3)), []),
    ],
)
def test_answers_in_evaluation_depend_on_the_example_alone(model: nn.Module, found: list[str]) -> None:
    assert causes("evaluation_mode", model) == found


@pytest.mark.parametrize(("mode", "found"), [(True, []), (False, ["the model is trained in evaluation mode"])])
def test_a_step_that_trains_in_evaluation_mode_is_seen(mode: bool, found: list[str]) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> None:
        model.train(mode)
        optimizer.zero_grad()
        CROSS_ENTROPY(model(batch.x), batch.y).backward()
        optimizer.step()

    assert causes("evaluation_mode", nn.Sequential(nn.Dropout(0.2), net()), step=step) == found


def test_deviations_over_the_batch_are_seen_although_one_example_has_none() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.net((x - x.mean(0)) / (x.std(0) + 1e-3))
            return out

    assert causes("evaluation_mode", Scaled()) == ["examples mix within a batch"]


def test_a_state_that_is_kept_from_batch_to_batch_is_seen() -> None:
    class Recurrent(nn.Module):
        def __init__(self, keeps: bool) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.cell, self.head, self.keeps = nn.GRUCell(10, 8), nn.Linear(8, 3), keeps
            self.state: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            before = self.state if self.keeps and self.state is not None and len(self.state) == len(x) else None
            self.state = self.cell(x, before).detach()
            out: Tensor = self.head(self.cell(x, before))
            return out

    assert causes("evaluation_mode", Recurrent(keeps=True)) == ["state kept between batches"]
    assert causes("evaluation_mode", Recurrent(keeps=False)) == []


@pytest.mark.parametrize(("back", "found"), [(True, []), (False, ["the model is trained in evaluation mode"])])
def test_a_step_that_leaves_evaluation_mode_on_after_validation_is_seen(back: bool, found: list[str]) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any, number: int) -> None:
        optimizer.zero_grad()
        CROSS_ENTROPY(model(batch.x), batch.y).backward()
        optimizer.step()
        if number % 10 == 0:
            model.eval()
            with torch.no_grad():
                model(X[:20])
            model.train(back)

    assert causes("evaluation_mode", nn.Sequential(nn.Dropout(0.2), net()), step=step) == found

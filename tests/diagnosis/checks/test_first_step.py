from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from tests.diagnosis.checks.plain import CLASSES, X, causes, net


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = net()


class InPlace(Wrapped):
    def forward(self, x: Tensor) -> Tensor:
        hidden = self.net[0](x).sigmoid()
        out: Tensor = self.net[4](self.net[2](hidden))
        hidden.mul_(2)
        return out


class ChangesInput(Wrapped):
    def forward(self, x: Tensor) -> Tensor:
        x *= 0.5
        out: Tensor = self.net(x)
        return out


class Rectified(Wrapped):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net[4](functional.relu(self.net[0](x), inplace=True))
        return out


@pytest.mark.parametrize(
    ("kind", "found"), [(InPlace, ["in-place fault"]), (ChangesInput, ["in-place fault"]), (Rectified, [])]
)
def test_operations_in_place_are_seen_where_they_do_harm(kind: type[nn.Module], found: list[str]) -> None:
    assert causes("first_step", kind()) == found


def test_errors_of_torch_are_named_by_their_cause() -> None:
    norm = nn.Sequential(nn.Linear(10, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    assert causes("first_step", norm, batch_size=1) == ["batch norm on a batch of one example"]
    assert causes("first_step", net(), (X.double(), CLASSES)) == ["wrong data type"]
    assert causes("first_step", net(), (X[:, :7], CLASSES)) == ["shapes do not fit"]
    assert causes("first_step", net(), (X, CLASSES), loss=lambda o, y: torch.tensor(float(o.sum()))) == [
        "detached graph"
    ]


def test_any_error_of_the_first_step_is_a_fault() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.net(x)[0, 0].no_such_thing
            return out

    assert causes("first_step", Broken()) == ["the training step fails"]


def test_a_step_that_changes_inputs_which_are_its_targets_is_seen() -> None:
    def step(model: nn.Module, optimizer: Optimizer, x: Tensor, *, copied: bool) -> Tensor:
        noisy = x.clone() if copied else x
        noisy += 0.4 * torch.randn_like(x)
        loss = functional.mse_loss(model(noisy), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for copied, found in ((False, ["in-place fault"]), (True, [])):
        one = partial(step, copied=copied)
        assert causes("first_step", net(10), X, loss=None, step=one) == found
        assert causes("seeds", net(10), X, loss=None, step=one) == []
    both = nn.Sequential(nn.ReLU(inplace=True), net(10))  # the forward pass is the cause, and is named once
    assert causes("first_step", both, X, loss=None, step=partial(step, copied=False)) == ["in-place fault"]

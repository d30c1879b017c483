from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.diagnosis.checks.plain import adam, causes, net, sgd


@pytest.mark.parametrize(("std", "effect"), [(20.0, "exploding"), (1e-6, "vanishing")])
def test_weights_far_too_large_or_small_are_seen(std: float, effect: str) -> None:
    model = net()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    optimizer = adam(model, 1e-3) if std > 1 else sgd(model)
    assert causes("start_scale", model, optimizer=optimizer, steps=120) == [f"bad initialization, {effect} gradients"]


def test_another_usual_start_is_fine() -> None:
    model = net()
    for layer in (0, 2, 4):
        nn.init.orthogonal_(model[layer].weight)  # type: ignore[arg-type]
    assert causes("start_scale", model) == []


def test_a_recurrence_that_enlarges_its_state_is_seen_whatever_its_weights_look_like() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.state, self.out = nn.Parameter(torch.eye(16) * 1.8), nn.Linear(16, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = torch.zeros(len(x), 16)
            for step in range(x.shape[1]):
                h = torch.relu(h @ self.state + x[:, step].repeat(1, 4))
            out: Tensor = self.out(h)
            return out

    torch.manual_seed(0)
    x = torch.randn(200, 40, 4)
    found = causes("start_scale", Recurrent(), data=(x, (x[:, -3:].sum((1, 2)) > 0).long()), lr=0.01, steps=120)
    assert [cause.split(", ")[-1] for cause in found] == ["exploding gradients"]


def test_a_start_that_only_he_would_mend_is_seen() -> None:
    model = net(layers=8, hidden=64)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=1e-4)
    assert causes("start_scale", model, optimizer=sgd(model), steps=200) == ["bad initialization, vanishing gradients"]

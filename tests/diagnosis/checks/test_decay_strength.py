from __future__ import annotations

from typing import Any

import pytest
from torch import nn
from torch.optim import AdamW, Optimizer

from tests.diagnosis.checks.plain import CROSS_ENTROPY, adam, causes, net, sgd


@pytest.mark.slow
def test_a_decay_that_outweighs_the_gradient_is_seen_and_a_usual_one_is_fine() -> None:
    model = net()
    usual = AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    assert causes("decay_strength", model, optimizer=usual) == []
    found = ["weight decay too strong"]
    assert causes("decay_strength", model, optimizer=adam(model, 1e-2, weight_decay=10.0), steps=150) == found
    assert causes("decay_strength", model, optimizer=sgd(model, weight_decay=1.0), steps=150) == found


@pytest.mark.parametrize(("weight", "found"), [(1e-3, []), (3.0, ["weight decay too strong"])])
def test_a_penalty_within_the_loss_is_judged_by_the_loss_without_it(weight: float, found: list[str]) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> None:
        optimizer.zero_grad()
        penalty = sum(p.square().sum() for p in model.parameters())
        (CROSS_ENTROPY(model(batch.x), batch.y) + weight * penalty).backward()
        optimizer.step()

    assert causes("decay_strength", net(), step=step, steps=100) == found

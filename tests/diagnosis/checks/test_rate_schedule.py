from __future__ import annotations

from typing import Any

import pytest
from torch import nn
from torch.optim import Optimizer

from tests.diagnosis.checks.plain import CROSS_ENTROPY, causes, net, sgd
from tests.diagnosis.checks.planted import causes as causes_of
from tests.diagnosis.checks.planted import report_of


@pytest.mark.parametrize(("factor", "found"), [(0.999, []), (0.3, ["schedule ends too early"])])
def test_a_rate_that_is_gone_after_a_few_steps_is_seen(factor: float, found: list[str]) -> None:
    def step(model: nn.Module, optimizer: Optimizer, batch: Any) -> None:
        optimizer.zero_grad()
        CROSS_ENTROPY(model(batch.x), batch.y).backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= factor

    model = net()
    assert causes("rate_schedule", model, optimizer=sgd(model), step=step, steps=150) == found


@pytest.mark.slow
@pytest.mark.parametrize(("schedule", "found"), [("exponential:rate=0.01,scale=2", 1), ("cosine", 0)])
def test_a_schedule_that_stops_a_language_model_is_seen(schedule: str, found: int) -> None:
    words = "gpt:embedding=32,layers=1,heads=2"
    report = report_of("rate_schedule", words, "text:length=32", steps=20, schedule=schedule)
    assert causes_of(report) == ["schedule ends too early"] * found
    assert [each.change for each in report] == [{"schedule": "constant"}] * found

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from deepcanon.diagnosis.families.embedding_spread import embedding_spread
from tests.diagnosis.checks.plain import X, adam, net
from tests.diagnosis.checks.plain import causes as causes_of_plain
from tests.diagnosis.checks.planted import causes, report_of


@pytest.mark.slow
def test_a_contrast_keeps_embeddings_apart_and_attraction_alone_does_not() -> None:
    def pretext(self: Any, batch: Any) -> tuple[str, Tensor]:
        one, other = self.embeddings(batch.x)
        return "attraction", (one - other).square().mean() + 0.1 * one.square().mean()

    assert causes(report_of("spread_embeddings", "simclr:model=mlp", "digits", steps=80)) == []
    report = report_of("spread_embeddings", "simclr:model=mlp", "digits", methods={"pretext": pretext}, steps=80)
    assert causes(report) == ["embedding collapse"]


def test_spread_and_dimensions_of_known_embeddings() -> None:
    axes = torch.eye(4, dtype=torch.float64).repeat(8, 1)
    both = torch.cat([axes, -axes])
    assert embedding_spread(both)["spread"] == pytest.approx(1)
    assert embedding_spread(both)["dimensions"] == pytest.approx(4)
    assert embedding_spread(torch.ones(8, 3, dtype=torch.float64)) == {"spread": pytest.approx(0), "dimensions": 0.0}


@pytest.mark.parametrize(("contrast", "found"), [(True, []), (False, ["embedding collapse"])])
def test_a_step_without_contrast_collapses(contrast: bool, found: list[str]) -> None:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
        one, other = (model(x + 0.1 * torch.randn_like(x)) for _ in range(2))
        optimizer.zero_grad()
        if contrast:
            alike = normalize(one, dim=1) @ normalize(other, dim=1).T
            cross_entropy(alike / 0.2, torch.arange(len(x))).backward()
        else:
            (one - other).square().mean().backward()
        optimizer.step()

    model = net(4)
    named = {"loss": None, "optimizer": adam(model), "step": step, "steps": 150}
    assert causes_of_plain("spread_embeddings", model, X, **named) == found

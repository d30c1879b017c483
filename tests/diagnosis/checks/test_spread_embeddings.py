from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.diagnosis.families.embedding_spread import embedding_spread
from tests.diagnosis.checks.planted import causes, report_of


@pytest.mark.slow
def test_a_contrast_keeps_embeddings_apart_and_attraction_alone_does_not() -> None:
    def pretext(self: Any, batch: Any) -> tuple[str, Tensor]:
        one, other = self.embeddings(batch.x)
        return "attraction", (one - other).square().mean() + 0.1 * one.square().mean()

    assert causes(report_of("spread_embeddings", "simclr:model=mlp", "digits", steps=80)) == []
    report = report_of("spread_embeddings", "simclr:model=mlp", "digits", methods={"pretext": pretext}, steps=80)
    assert causes(report) == ["representation collapse"]


def test_spread_and_dimensions_of_known_embeddings() -> None:
    axes = torch.eye(4, dtype=torch.float64).repeat(8, 1)
    both = torch.cat([axes, -axes])
    assert embedding_spread(both)["spread"] == pytest.approx(1)
    assert embedding_spread(both)["dimensions"] == pytest.approx(4)
    assert embedding_spread(torch.ones(8, 3, dtype=torch.float64)) == {"spread": pytest.approx(0), "dimensions": 0.0}

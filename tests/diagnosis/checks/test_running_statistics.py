from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.diagnosis.checks.plain import causes


@pytest.mark.parametrize(
    ("momentum", "found"),
    [(0.1, []), (0.0, ["batch norm statistics are off"]), (1e-6, ["batch norm statistics are off"])],
)
def test_running_statistics_that_never_move_are_seen(momentum: float, found: list[str]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16, momentum=momentum), nn.ReLU(), nn.Linear(16, 3))
    nn.init.constant_(model[0].bias, 10.0)  # type: ignore[arg-type]
    assert causes("running_statistics", model, steps=150) == found

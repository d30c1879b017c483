from __future__ import annotations

import pytest
from torch import nn

from tests.diagnosis.checks.plain import causes


@pytest.mark.parametrize(("probability", "found"), [(0.5, []), (0.98, ["dropout too strong"])])
def test_dropout_of_nearly_all_units_is_seen(probability: float, found: list[str]) -> None:
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(probability), nn.Linear(32, 3))
    assert causes("dropout_strength", model, steps=150) == found

from __future__ import annotations

import pytest
from torch import nn

from tests.diagnosis.checks.plain import causes, net, report, sgd


@pytest.mark.slow
def test_two_examples_are_too_few_for_statistics_and_32_are_not() -> None:
    model = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))
    found = causes("small_batch_norm", model, optimizer=sgd(model, 0.05), batch_size=2, steps=300)
    assert found == ["batch norm in tiny batches"]
    assert causes("small_batch_norm", model, batch_size=32) == []
    assert "no batch" in report("small_batch_norm", net(), batch_size=2).skipped["small_batch_norm"]

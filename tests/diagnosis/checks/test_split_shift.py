from __future__ import annotations

import torch
from torch import nn

import deepcanon as dc
from tests.diagnosis.checks.plain import CLASSES, X, causes, net


def test_a_split_that_is_scaled_in_another_way_is_seen() -> None:
    alike = dc.from_tensors(X[:400], CLASSES[:400], valid=(1.2 * X[400:], CLASSES[400:]))
    apart = dc.from_tensors(X[:400], CLASSES[:400], valid=(10 * X[400:], CLASSES[400:]))
    assert causes("split_shift", net(), alike) == []
    assert causes("split_shift", net(), apart) == ["shifted splits"]


def test_a_series_that_wanders_and_is_split_by_time_is_left_alone_unless_it_is_scaled() -> None:
    walk = torch.randn(600, generator=torch.Generator().manual_seed(0)).cumsum(0) + 0.1 * torch.arange(600)
    x = torch.stack([walk[place : place + 590] for place in range(8)], 1)
    y = walk[8:598].unsqueeze(1)
    for scale, found in ((1.0, []), (5.0, ["shifted splits"])):
        data = dc.from_tensors(x[:400], y[:400], valid=(scale * x[408:], y[408:]))
        assert causes("split_shift", nn.Linear(8, 1), data, loss=nn.MSELoss()) == found

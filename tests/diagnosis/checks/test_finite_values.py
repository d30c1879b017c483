from __future__ import annotations

import torch
from torch import nn

from tests.diagnosis.checks.plain import CLASSES, TARGETS, X, causes, net, report


def test_a_value_that_is_not_a_number_is_named_with_its_row() -> None:
    x = X.clone()
    x[7, 2] = torch.nan
    found = list(report("finite_values", net(), (x, CLASSES)))
    assert [each.cause for each in found] == ["non-finite inputs"]
    assert found[0].evidence["first_row"] == 7
    assert found[0].evidence["first_column"] == 2


def test_an_infinite_target_is_seen_and_large_values_are_not() -> None:
    y = TARGETS.clone()
    assert causes("finite_values", net(1), (X, 1e30 * y), loss=nn.MSELoss()) == []
    y[3] = torch.inf
    assert causes("finite_values", net(1), (X, y), loss=nn.MSELoss()) == ["non-finite targets"]


def test_values_that_a_module_masks_are_missing_by_design() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.net(torch.nan_to_num(x))
            return out

    x = X.clone()
    x[::3, 2] = torch.nan
    assert causes("finite_values", Masked(), (x, CLASSES)) == []
    assert causes("finite_values", net(), (x, CLASSES)) == ["non-finite inputs"]

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.diagnosis.checks.plain import CLASSES, TARGETS, X, causes, net


@pytest.mark.slow
def test_labels_in_another_order_are_seen() -> None:
    order = torch.randperm(600, generator=torch.Generator().manual_seed(1))
    assert causes("labels_fit", net(), (X, CLASSES)) == []
    assert causes("labels_fit", net(), (X, CLASSES[order])) == ["shuffled labels"]
    assert causes("labels_fit", net(1), (X, TARGETS[order]), loss=nn.MSELoss()) == ["shuffled labels"]


def test_noisy_labels_and_labels_without_a_linear_trend_fit() -> None:
    noisy = torch.where(torch.rand(600, generator=torch.Generator().manual_seed(2)) < 0.5, CLASSES, 0)
    assert causes("labels_fit", net(), (X, noisy)) == []
    plane = X[:, :2]
    wide = torch.cat([plane, 0.1 * X[:, 2:]], 1)
    assert causes("labels_fit", net(2), (wide, (plane.prod(1) > 0).long())) == []

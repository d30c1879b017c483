from __future__ import annotations

import torch
from torch import nn

from tests.diagnosis.checks.plain import CLASSES, TARGETS, X, causes, net


def test_a_feature_that_is_the_label_is_seen() -> None:
    x = X.clone()
    x[:, 4] = CLASSES.float()
    assert causes("target_leak", net(), (x, CLASSES)) == ["label leak"]
    x[:, 5] = CLASSES + 0.4 * X[:, 5]  # another feature says much, too
    assert causes("target_leak", net(), (x, CLASSES)) == ["label leak"]
    x[:, 4] = 3 * TARGETS[:, 0] + 1
    assert causes("target_leak", net(1), (x, TARGETS), loss=nn.MSELoss()) == ["label leak"]


def test_a_feature_that_a_threshold_divides_is_no_leak() -> None:
    assert causes("target_leak", net(2), (X, (X[:, 0] > 0).long())) == []
    y = X[:, :1] + 0.05 * torch.randn(600, 1, generator=torch.Generator().manual_seed(1))
    assert causes("target_leak", net(1), (X, y), loss=nn.MSELoss()) == []


def test_a_value_that_all_examples_of_a_class_have_and_no_others_is_a_leak() -> None:
    x, left = X.clone(), CLASSES == 1
    x[:, 4] = torch.where(left, x[:, 4].abs() + 1, 0)  # a date that only those have who have left
    assert causes("target_leak", net(2), (x, left.long())) == ["label leak"]
    x[left.nonzero()[0], 4] = 0
    assert causes("target_leak", net(2), (x, left.long())) == []

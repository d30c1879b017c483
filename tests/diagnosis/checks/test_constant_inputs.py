from __future__ import annotations

import torch

from tests.diagnosis.checks.plain import CLASSES, X, causes, net


def test_inputs_that_are_all_alike_are_seen_and_one_feature_may_be_constant() -> None:
    x = X.clone()
    x[:, 4] = 1.0
    assert causes("constant_inputs", net(), (x, CLASSES)) == []
    assert causes("constant_inputs", net(), (torch.ones_like(X), CLASSES)) == ["constant inputs"]

from __future__ import annotations

from torch import nn

from tests.diagnosis.checks.plain import TARGETS, X, causes, net


def test_targets_far_from_0_are_named_if_standardizing_helps() -> None:
    loss = nn.MSELoss()
    assert causes("target_scale", net(1), (X, 1000 * TARGETS + 5000), loss=loss) == ["unscaled targets"]
    assert causes("target_scale", net(1), (X, TARGETS + 1), loss=loss) == []

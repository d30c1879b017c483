from __future__ import annotations

from torch import nn

from tests.diagnosis.checks.plain import TARGETS, X, causes, net


def test_targets_of_another_shape_are_seen_unless_the_loss_brings_them_together() -> None:
    flat = (X, TARGETS.squeeze(1))
    assert causes("broadcast_targets", net(1), flat, loss=nn.MSELoss()) == ["wrong broadcast of targets"]
    assert causes("broadcast_targets", nn.Sequential(net(1), nn.Flatten(0)), (X, TARGETS), loss=nn.MSELoss()) == [
        "wrong broadcast of targets"
    ]
    squeezed = lambda output, y: (output.squeeze(1) - y).square().mean()  # noqa: E731
    assert causes("broadcast_targets", net(1), flat, loss=squeezed) == []
    assert causes("broadcast_targets", net(1), (X, TARGETS), loss=nn.MSELoss()) == []

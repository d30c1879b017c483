from __future__ import annotations

import pytest
from torch import nn

from tests.diagnosis.checks.plain import adam, causes, net, sgd


@pytest.mark.parametrize("std", [20.0, 1e-6])
def test_weights_far_too_large_or_small_are_seen(std: float) -> None:
    model = net()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    optimizer = adam(model, 1e-3) if std > 1 else sgd(model)
    assert causes("start_scale", model, optimizer=optimizer, steps=120) == ["bad initialization"]


def test_another_usual_start_is_fine() -> None:
    model = net()
    for layer in (0, 2, 4):
        nn.init.orthogonal_(model[layer].weight)  # type: ignore[arg-type]
    assert causes("start_scale", model) == []

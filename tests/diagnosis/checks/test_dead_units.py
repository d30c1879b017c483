from __future__ import annotations

from torch import nn

from tests.diagnosis.checks.plain import adam, causes, net


def test_biases_far_below_zero_are_seen_and_a_few_dead_units_are_fine() -> None:
    model = net()
    nn.init.constant_(model[0].bias[:8], -100.0)  # type: ignore[index]
    assert causes("dead_units", model) == []
    nn.init.constant_(model[0].bias, -100.0)  # type: ignore[arg-type]
    assert causes("dead_units", model, optimizer=adam(model, 1e-3)) == ["dead units"]

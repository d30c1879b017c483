from __future__ import annotations

from torch import nn

from tests.diagnosis.checks.plain import causes, net


def test_units_that_stay_alike_are_seen_and_a_last_layer_at_zero_is_fine() -> None:
    model = net()
    nn.init.zeros_(model[4].weight)  # type: ignore[arg-type]
    assert causes("symmetric_start", model) == []
    for value in (0.0, 0.1):
        for parameter in model.parameters():
            nn.init.constant_(parameter, value)
        assert causes("symmetric_start", model) == ["symmetric start"]

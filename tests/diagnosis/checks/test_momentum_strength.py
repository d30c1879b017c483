from __future__ import annotations

import pytest

from tests.diagnosis.checks.plain import causes, net, report, sgd


@pytest.mark.slow
def test_a_momentum_near_one_is_named_if_a_usual_one_helps() -> None:
    model = net()
    assert causes("momentum_strength", model, optimizer=sgd(model, momentum=0.999), steps=200) == ["momentum too high"]
    assert (
        "usual" in report("momentum_strength", model, optimizer=sgd(model, momentum=0.9)).skipped["momentum_strength"]
    )

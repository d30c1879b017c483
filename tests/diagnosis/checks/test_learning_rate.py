from __future__ import annotations

import pytest

from tests.diagnosis.checks.plain import adam, causes, net, report, sgd


@pytest.mark.parametrize(
    ("rate", "found"),
    [(10.0, ["learning rate too high"]), (0.3, []), (1e-2, []), (1e-7, ["learning rate too low"]), (0.0, [])],
)
def test_rates_far_too_high_or_low_are_seen(rate: float, found: list[str]) -> None:
    model = net()
    wanted = found or (["learning rate too low"] if rate == 0 else [])
    assert causes("learning_rate", model, optimizer=sgd(model, rate), steps=100) == wanted


def test_the_evidence_has_the_range_test_and_a_rate_that_does_well() -> None:
    model = net()
    (found,) = report("learning_rate", model, optimizer=adam(model, 10.0), steps=100)
    assert found.evidence["loss_with_repair"] < 0.7 < found.evidence["loss_as_it_is"]
    assert len(found.evidence["range"]["rates"]) == len(found.evidence["range"]["losses"]) > 5
    assert "does well here" in found.advice

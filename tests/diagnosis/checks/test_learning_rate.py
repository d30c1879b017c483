from __future__ import annotations

from typing import Any

import pytest

from tests.diagnosis.checks.plain import adam, causes, net, report, sgd
from tests.diagnosis.checks.planted import causes as causes_of
from tests.diagnosis.checks.planted import report_of


@pytest.mark.parametrize(
    ("rate", "found"),
    [(10.0, ["learning rate too high"]), (0.3, []), (1e-2, []), (1e-7, ["learning rate too low"]), (0.0, [])],
)
def test_rates_far_too_high_or_low_are_seen(rate: float, found: list[str]) -> None:
    model = net()
    wanted = found or (["learning rate too low"] if rate == 0 else [])
    assert causes("learning_rate", model, optimizer=sgd(model, rate), steps=100) == wanted


@pytest.mark.slow
def test_the_evidence_has_the_range_test_and_a_rate_that_does_well() -> None:
    model = net()
    (found,) = report("learning_rate", model, optimizer=adam(model, 10.0), steps=100)
    assert found.evidence["loss_with_repair"] < 0.7 < found.evidence["loss_as_it_is"]
    assert len(found.evidence["range"]["rates"]) == len(found.evidence["range"]["losses"]) > 5
    assert "does well here" in found.advice
    assert "the range test suggests" in found.advice
    assert found.change == {}  # a training that is not ours has no settings of ours


@pytest.mark.slow
def test_a_rate_that_is_too_low_comes_with_the_interval_that_suits() -> None:
    model = net()
    (found,) = report("learning_rate", model, optimizer=sgd(model, 1e-7), steps=100)
    low, high = (float(part) for part in found.advice.split("suggests ")[1].split(" to "))
    assert 1e-4 < low < 0.1 < high < 10


@pytest.mark.slow
def test_a_rate_that_is_too_low_for_weights_that_start_at_zero_is_seen() -> None:
    given: dict[str, Any] = {"optimizer": "sgd", "batch_size": 64}
    for rate, wanted in ((1e-8, ["learning rate too low"]), (0.3, [])):
        found = report_of("learning_rate", "logistic_regression", "moons", steps=100, lr=rate, **given)
        assert causes_of(found) == wanted
        for each in found:
            assert f"raise it: {each.change['lr']:.2g} does well here" in each.advice


@pytest.mark.slow
def test_steps_that_make_the_loss_leap_are_named_though_it_ends_below_its_beginning() -> None:
    words, data = "gpt:embedding=64,layers=4,heads=2", "text:length=32"
    (found,) = report_of("learning_rate", words, data, steps=20, lr=3.0)
    assert found.cause == "learning rate too high"
    assert found.evidence["loss_as_it_is"] < found.evidence["curves"]["as it is"][0]
    assert causes_of(report_of("learning_rate", words, data, steps=20)) == []

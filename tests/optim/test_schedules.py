"""Schedules against closed forms and torch's own schedulers."""

import math

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.optim import schedule

TOTAL = 50


def factors(text: str, total: int = TOTAL) -> list[float]:
    factor = schedule(text)
    return [factor(step, total) for step in range(1, total + 1)]


def torch_factors(make: object, total: int = TOTAL) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimizer)  # type: ignore[operator]
    rates = []
    for _ in range(total):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def test_constant_does_nothing() -> None:
    assert factors("constant") == [1.0] * TOTAL


def test_linear_falls_for_a_share_of_the_training_and_then_stays() -> None:
    expected = [1 - 0.9 * min(done / (0.4 * TOTAL), 1) for done in range(TOTAL)]
    assert factors("linear:end=0.1,over=0.4") == pytest.approx(expected, abs=1e-15)
    assert factors("linear:end=0.1,over=0.4")[-1] == pytest.approx(0.1)


def test_power_law() -> None:
    expected = [(1 + done / 7) ** -0.75 for done in range(TOTAL)]
    assert factors("power:exponent=-0.75,scale=7") == pytest.approx(expected, abs=1e-15)


def test_exponential_equals_torch() -> None:
    theirs = torch_factors(lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5 ** (1 / 8)))
    assert factors("exponential:rate=0.5,scale=8") == pytest.approx(theirs, abs=1e-12)


def test_exponential_reaches_its_rate_at_the_end_of_the_training() -> None:
    assert schedule("exponential:rate=0.1")(TOTAL + 1, TOTAL) == pytest.approx(0.1)


@pytest.mark.parametrize(("total", "ends"), [(50, [17, 34]), (48, [16, 32])])
def test_a_staircase_equals_torch(total: int, ends: list[int]) -> None:
    """Where the stages cannot be equally long, each ends with the first step that is not before its share."""
    theirs = torch_factors(lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, ends, gamma=0.2), total)
    assert factors("staircase:rate=0.2,stages=3", total) == pytest.approx(theirs, abs=1e-12)


def test_cosine_equals_torch() -> None:
    theirs = torch_factors(
        lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=TOTAL, eta_min=0.2)
    )
    assert factors("cosine:end=0.2") == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("total", [50, 37, 10])
def test_one_cycle_equals_torch(total: int) -> None:
    theirs = torch_factors(
        lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=total), total - 1
    )
    assert factors("one-cycle", total)[: total - 1] == pytest.approx(theirs, abs=1e-12)


def test_warm_up_rises_linearly_before_any_schedule() -> None:
    plain, warmed = schedule("cosine"), schedule("cosine:warmup=10")
    assert [warmed(step, TOTAL) for step in range(1, 11)] == pytest.approx([step / 10 for step in range(1, 11)])
    assert [warmed(step, TOTAL) for step in range(11, TOTAL)] == [
        plain(step - 10, TOTAL - 10) for step in range(11, TOTAL)
    ]
    assert factors("warm-up:steps=10") == factors("constant:warmup=10")


@pytest.mark.parametrize(
    "text", ["constant", "linear", "power", "exponential", "staircase", "cosine", "one-cycle", "warm-up"]
)
@pytest.mark.parametrize("total", [1, 2, 3, 1000])
def test_factors_stay_between_nothing_and_one(text: str, total: int) -> None:
    assert all(0 <= value <= 1 and math.isfinite(value) for value in factors(text, total))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cosin", "did you mean cosine"),
        ("linear:stop=1", "no option 'stop'"),
        ("power:exponent=1", "exponent < 0"),
        ("exponential:rate=2", "0 < rate < 1"),
        ("staircase:rate=1", "0 < rate < 1"),
        ("staircase:stages=2.5", "whole number of stages"),
        ("cosine:end=low", "needs a number"),
        ("cosine:warmup=0.5", "number of steps"),
        ("linear:over=0", "share of the training"),
        ("linear:0.5", "option=value"),
        ("linear:end=-1", "below zero"),
        ("cosine:end=-2", "below zero"),
    ],
)
def test_wrong_schedules_are_refused_with_a_sentence(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        schedule(text)

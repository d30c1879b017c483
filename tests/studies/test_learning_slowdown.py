"""Learning slowdown: the numbers that Nielsen's book prints, and the closed forms of both derivatives."""

import math

import pytest

from deepcanon.core import UsageError
from deepcanon.studies.learning_slowdown import learning_slowdown


@pytest.mark.slow
def test_the_quadratic_cost_has_the_outputs_of_the_book() -> None:
    """Chapter 3: 0.82 falls to 0.09 in 300 epochs at the rate 0.15, and 0.98 only to 0.20."""
    good, bad = (start["costs"]["quadratic cost"]["outputs"] for start in learning_slowdown().numbers["starts"])
    assert [round(good[0], 2), round(good[-1], 2)] == [0.82, 0.09]
    assert [round(bad[0], 2), round(bad[-1], 2)] == [0.98, 0.20]
    assert bad[100] > 0.9  # the slowdown: a third of the time passes before anything happens
    entropy = learning_slowdown().numbers["starts"][1]["costs"]["cross-entropy"]["outputs"]
    assert entropy[100] < 0.1


def test_the_first_derivatives_are_those_of_the_formulas() -> None:
    [start] = learning_slowdown(weights=(1.5,), biases=(3.0,), steps=2).numbers["starts"]
    a = 1 / (1 + math.exp(-4.5))
    quadratic, entropy = start["costs"]["quadratic cost"], start["costs"]["cross-entropy"]
    assert quadratic["derivative"] == pytest.approx(a * (1 - a) * a, rel=1e-12)
    assert entropy["derivative"] == pytest.approx(a, rel=1e-12)
    z = 4.5 - 2 * 0.15 * a  # weight and bias move alike
    assert entropy["outputs"][1] == pytest.approx(1 / (1 + math.exp(-z)), rel=1e-12)
    assert quadratic["half"] is None


def test_the_derivatives_at_random_units_are_the_closed_forms() -> None:
    found = learning_slowdown(steps=2, seed=3)
    assert 0 < found.numbers["error"] < 1e-12
    assert "not at all" in found.says[1]


def test_starts_are_pairs() -> None:
    with pytest.raises(UsageError, match="each initial weight has a bias"):
        learning_slowdown(weights=(1.0,))
    with pytest.raises(UsageError, match="above 0"):
        learning_slowdown(rate=0.0)

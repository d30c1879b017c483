"""Contests: the best rate lies inside its grid, differences inside the noise are none, and learning is torch's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ttest_rel

from deepcanon.data import load_data
from deepcanon.models.linear.softmax_regression import SoftmaxRegression
from deepcanon.studies._helpers import contest
from deepcanon.studies._helpers.contest import (
    RATES,
    TUNING,
    alike,
    bracketed,
    classification,
    interval,
    steps_of,
    winner,
)


@pytest.mark.parametrize("best", [1e-4, 0.03, 30.0])
def test_a_grid_grows_until_the_best_rate_is_inside(best: float) -> None:
    found = bracketed(lambda rates: [abs(math.log(rate / best)) for rate in rates], (0.01, 0.03, 0.1, 0.3))
    assert min(found, key=lambda rate: found[rate]) == pytest.approx(best)
    assert min(found) < best < max(found)


def test_a_difference_is_told_apart_where_a_paired_t_test_does() -> None:
    random = np.random.default_rng(0)
    verdicts = set()
    for shift in np.linspace(0, 1.5, 30):
        one = random.normal(size=6)
        other = one + shift + 0.5 * random.normal(size=6)
        apart = len(alike({"one": one.tolist(), "other": other.tolist()})) == 1
        assert apart == (ttest_rel(one, other).pvalue < 0.05)
        verdicts.add(apart)
    assert verdicts == {True, False}


def test_the_winner_changes_with_the_numbers() -> None:
    values = {"a": [1.0, 2.0, 3.0], "b": [2.0, 3.1, 4.0], "c": [9.0, 9.9, 11.0]}
    assert winner(values) == "c is best"
    assert winner(values, lowest=True) == "a is best"
    assert winner({**values, "c": [2.0, 3.0, 4.1]}) == "b and c cannot be told apart"
    assert interval([1.0]) == (1.0, math.inf)


def test_a_contest_measures_at_the_rate_that_is_best_on_validation_data() -> None:
    data = load_data("digits")

    def network() -> SoftmaxRegression:
        return SoftmaxRegression(features=64, classes=10)

    state = torch.get_rng_state()
    numbers, models = classification(network, data, steps=steps_of(data, 1), seeds=2, seed=0)
    assert torch.equal(torch.get_rng_state(), state)
    losses: dict[str, Any] = numbers["rates"]
    assert numbers["rate"] == float(min(losses, key=lambda rate: losses[rate]))
    assert {f"{rate:g}" for rate in RATES} <= losses.keys()
    test = data.split("test")
    for model, accuracy, valid in zip(models, numbers["accuracies"], numbers["valid"], strict=True):
        with torch.no_grad():
            assert accuracy == pytest.approx((model(test.x).argmax(-1) == test.y).double().mean().item())
            held_out = data.split("valid")
            own = torch.nn.functional.cross_entropy(model(held_out.x), held_out.y).item()
        assert valid == pytest.approx(own, rel=1e-4)
    assert min(numbers["accuracies"]) > 0.8
    assert TUNING > 1


@pytest.mark.slow
def test_a_training_ends_where_its_loss_is_reached() -> None:
    data = load_data("digits")
    numbers, _ = classification(
        lambda: SoftmaxRegression(features=64, classes=10), data, steps=400, seeds=2, seed=0, rates=(0.03, 0.1, 0.3),
        until=1.0,
    )  # fmt: skip
    assert max(numbers["losses"]) < 1.1
    assert numbers["steps"][-1] < 200


def test_a_rate_at_which_a_measured_seed_diverges_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    data, own = load_data("digits"), contest._losses

    def losses(networks: Any, batch: Any) -> torch.Tensor:
        found = own(networks, batch)
        if len(found) == 4 and float(networks.rates[0]) > 20:  # one of the seeds that are measured
            found[1] = math.inf
        return found

    monkeypatch.setattr(contest, "_losses", losses)
    numbers, _ = classification(
        lambda: SoftmaxRegression(features=64, classes=10), data, steps=20, seeds=4, seed=0, rates=(0.03, 0.3, 30.0)
    )
    assert float(min(numbers["rates"], key=lambda rate: numbers["rates"][rate])) > 20
    assert numbers["rate"] < 20
    assert all(map(math.isfinite, numbers["valid"]))

"""The cost of mistakes: the least expected cost by enumeration, the quantile of a number, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.comparison.cost import cost_of_examples, read_cost, whole_cost
from deepcanon.core import UsageError
from deepcanon.train.scores import Predicted


def test_decisions_have_the_least_expected_cost() -> None:
    """By enumeration of all decisions for each example."""
    cost = {"a": 1.0, "b": 5.0, "c": 0.5}
    shares = torch.from_numpy(np.random.default_rng(0).dirichlet([1, 1, 1], size=200))
    true = torch.from_numpy(np.random.default_rng(1).integers(0, 3, size=200))
    found = cost_of_examples(cost, Predicted(shares, true), None)
    for share, label, each in zip(shares.tolist(), true.tolist(), found.tolist(), strict=True):
        prices = list(cost.values())
        expected = [sum(p * c for k, (p, c) in enumerate(zip(share, prices, strict=True)) if k != d) for d in range(3)]
        decision = int(np.argmin(expected))
        assert each == (0.0 if decision == label else prices[label])


def test_alike_costs_are_the_error_rate() -> None:
    shares = torch.from_numpy(np.random.default_rng(0).dirichlet([1, 1], size=100))
    predicted = Predicted(shares, torch.arange(100) % 2)
    found = cost_of_examples({"no": 1.0, "yes": 1.0}, predicted, None)
    assert float(found.mean()) == pytest.approx(float((shares.argmax(1) != predicted.true).double().mean()))


def test_a_number_is_shifted_to_its_quantile() -> None:
    """Under-prediction costs three times as much: the best shift of normal errors is their quantile of level 3/4."""
    random = torch.Generator().manual_seed(0)
    errors = torch.randn(2, 20_000, 1, generator=random, dtype=torch.float64)
    valid, test = (Predicted(torch.zeros_like(each), each) for each in errors)
    costs = {"under": 3.0, "over": 1.0}
    shifted = float(cost_of_examples(costs, test, valid, unit=2.0).mean())
    assert shifted == pytest.approx(2 * 4 * 0.3178, rel=0.02)  # (a + b) times the normal density at its quantile
    plain = cost_of_examples(costs, test, None, unit=2.0)
    expected = torch.where(errors[1] > 0, 3 * errors[1], -errors[1]).squeeze(1) * 2
    assert torch.equal(plain, expected)
    assert shifted < float(plain.mean())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ill", "a class and a number"),
        ("ill=ten", "a class and a number"),
        ("ill=-1", "from 0 on"),
        ("ill=inf", "a class and a number"),
        ("=3", "a class and a number"),
        ("ill=1,ill=2", "'ill' is given twice"),
        ("ill=0", "more than 0"),
    ],
)
def test_what_is_no_cost_is_refused(given: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_cost(given)


def test_costs_are_those_of_the_data() -> None:
    assert read_cost({"a=b": 2}) == {"a=b": 2.0}
    assert read_cost("a=b=2") == {"a=b": 2.0}
    moons = dc.load_data("moons")
    names = moons.labels or ("0", "1")
    assert whole_cost({names[1]: 5.0}, moons) == {names[0]: 1.0, names[1]: 5.0}
    with pytest.raises(UsageError, match="'sick' is not a class of moons"):
        whole_cost({"sick": 5.0}, moons)
    x = np.zeros((4, 1))
    numbers: Any = dc.data.of(x, np.zeros(4), test=(x, np.zeros(4)))
    assert whole_cost({"over": 2.0}, numbers) == {"under": 1.0, "over": 2.0}
    with pytest.raises(UsageError, match="'above' is not a side of a number"):
        whole_cost({"above": 2.0}, numbers)
    with pytest.raises(UsageError, match="has no labels to be mistaken about"):
        whole_cost({"over": 2.0}, dc.data.of(x, test=x))

"""The biases of users and items: the solution of a damped least-squares problem, by NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deepcanon.comparison.baselines.rating_biases import DAMPING, RatingBiases
from deepcanon.core import UsageError
from deepcanon.data import load_data


def test_biases_are_those_of_damped_least_squares() -> None:
    random = np.random.default_rng(0)
    table = random.integers(1, 6, size=(30, 8)).astype(float)
    table[random.uniform(size=table.shape) < 0.5] = np.nan
    users, items = np.nonzero(~np.isnan(table))
    design = np.zeros((len(users), 38))
    design[np.arange(len(users)), users] = design[np.arange(len(users)), 30 + items] = 1
    target = table[users, items] - np.nanmean(table)
    found = np.linalg.solve(design.T @ design + DAMPING * np.eye(38), design.T @ target)
    expected = (np.nanmean(table) + found[:30, None] + found[None, 30:]).clip(1, 5)
    x = torch.from_numpy(table)
    baseline = RatingBiases(x, ratings=5)
    np.testing.assert_allclose(baseline.predict(x, how="mean").numpy(), expected, atol=1e-6)
    assert torch.equal(baseline.predict(x), baseline.predict(x, how="mean").round())
    with pytest.raises(UsageError, match="draw nothing"):
        baseline.predict(x, how="sample")


def test_they_suit_ratings_and_nothing_else() -> None:
    assert RatingBiases.suits(load_data("ratings"))
    assert not RatingBiases.suits(load_data("moons"))

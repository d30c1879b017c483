"""The energy distance against scipy, sums by hand and closed forms of Gaussians."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from deepcanon.losses.energy_distance import energy_distance


def test_it_is_the_mean_over_pairs_of_different_examples() -> None:
    x, y = np.random.RandomState(0).randn(6, 3), 1 + np.random.RandomState(1).randn(4, 3)

    def mean(pairs: list[tuple[np.ndarray, np.ndarray]]) -> float:
        return float(np.mean([np.linalg.norm(a - b) for a, b in pairs]))

    across = mean(list(itertools.product(x, y)))
    oracle = 2 * across - mean(list(itertools.permutations(x, 2))) - mean(list(itertools.permutations(y, 2)))
    assert energy_distance(torch.tensor(x), torch.tensor(y)).item() == pytest.approx(oracle, rel=1e-9)


def test_it_is_scipys_squared_but_for_the_pairs_of_an_example_with_itself() -> None:
    x, y = torch.randn(2000, dtype=torch.float64), 1 + torch.randn(3000, dtype=torch.float64)
    squared = stats.energy_distance(x.numpy(), y.numpy()) ** 2
    within = [torch.cdist(part[:, None], part[:, None]).mean().item() for part in (x, y)]
    correction = within[0] / 1999 + within[1] / 2999
    assert energy_distance(x[:, None], y[:, None]).item() == pytest.approx(squared - correction, rel=1e-6)


def test_it_is_unbiased_for_gaussians_also_in_small_samples() -> None:
    def mean_distance(shift: float) -> float:  # E |N(shift, 2)|
        return 2 / math.sqrt(math.pi) * math.exp(-(shift**2) / 4) + shift * math.erf(shift / 2)

    exact = 2 * mean_distance(1.0) - 2 * mean_distance(0.0)
    generator = torch.Generator().manual_seed(0)
    draws = torch.randn(4000, 2, 5, 1, generator=generator, dtype=torch.float64)
    estimates = torch.stack([energy_distance(x, 1 + y) for x, y in draws])
    assert abs(estimates.mean() - exact) < 4 * estimates.std() / math.sqrt(len(estimates))


def test_images_are_compared_as_rows_and_single_examples_have_no_within() -> None:
    x, y = torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 2)
    assert energy_distance(x, y).item() == pytest.approx(4.0)

"""The CRPS of a sample is that of its distribution, in closed form; quantile losses integrate to it."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from deepcanon.core import UsageError
from deepcanon.losses import crps, quantile_loss


def of_gaussian(mean: float, deviation: float, x: float) -> float:
    """Gneiting and Raftery (2007), eq. (21)."""
    z = (x - mean) / deviation
    density, below = stats.norm.pdf(z), stats.norm.cdf(z)
    return float(deviation * (z * (2 * below - 1) + 2 * density - 1 / math.sqrt(math.pi)))


@pytest.mark.parametrize(("mean", "deviation", "x"), [(0.0, 1.0, 0.3), (3.0, 0.5, 5.0), (-2.0, 4.0, -2.0)])
def test_of_a_gaussian_sample_it_is_the_closed_form(mean: float, deviation: float, x: float) -> None:
    level = (torch.arange(20000, dtype=torch.float64) + 0.5) / 20000
    sample = mean + deviation * torch.from_numpy(stats.norm.ppf(level.numpy()))
    assert float(crps(sample, torch.tensor(x))) == pytest.approx(of_gaussian(mean, deviation, x), rel=1e-3)


def test_it_is_unbiased_also_with_few_members() -> None:
    drawn = torch.randn(3, 200000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = crps(drawn, torch.full((200000,), 0.7, dtype=torch.float64))
    error = float(found.std()) / math.sqrt(len(found))
    assert abs(float(found.mean()) - of_gaussian(0, 1, 0.7)) < 4 * error


def test_it_is_the_mean_distance_less_half_of_that_between_members() -> None:
    sample = torch.randn(7, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = sample[0] + 0.3
    pairs = (sample.unsqueeze(0) - sample.unsqueeze(1)).abs().sum((0, 1)) / (7 * 6)
    torch.testing.assert_close(crps(sample, x), (sample - x).abs().mean(0) - pairs / 2)


def test_twice_the_quantile_loss_over_all_levels_is_the_crps() -> None:
    levels = (np.arange(4000) + 0.5) / 4000
    x = torch.tensor(0.8, dtype=torch.float64)
    quantiles = torch.from_numpy(stats.norm.ppf(levels))
    losses = [quantile_loss(quantile, x, level) for quantile, level in zip(quantiles, levels, strict=True)]
    assert 2 * float(torch.stack(losses).mean()) == pytest.approx(of_gaussian(0, 1, 0.8), rel=1e-3)


def test_the_quantile_loss_is_least_at_the_quantile() -> None:
    x = torch.from_numpy(stats.expon.ppf((np.arange(5000) + 0.5) / 5000))
    tried = torch.linspace(0.5, 3.5, 301, dtype=torch.float64)
    best = tried[torch.stack([quantile_loss(value, x, 0.8).mean() for value in tried]).argmin()]
    assert float(best) == pytest.approx(stats.expon.ppf(0.8), abs=0.011)


def test_one_member_and_levels_outside_0_to_1_are_refused() -> None:
    with pytest.raises(UsageError, match="at least 2"):
        crps(torch.zeros(1, 3), torch.zeros(3))
    with pytest.raises(UsageError, match="between 0 and 1"):
        quantile_loss(torch.zeros(3), torch.zeros(3), 1.0)

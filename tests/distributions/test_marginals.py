"""Marginals: of independent values the distribution of each, with its quantiles."""

import torch
from scipy import stats
from torch.distributions import Independent, Normal, Poisson

from deepcanon.distributions import Spherical, marginals


def test_quantiles_of_each_value_are_those_of_scipy() -> None:
    loc, level = torch.tensor([[1.0, -2.0]], dtype=torch.float64), torch.tensor(0.05, dtype=torch.float64)
    wanted = torch.from_numpy(stats.norm.ppf(0.05, loc.numpy(), 3.0))
    for whole in (Spherical(loc, torch.tensor(3.0, dtype=torch.float64)), Independent(Normal(loc, 3.0), 1)):
        torch.testing.assert_close(marginals(whole).icdf(level), wanted)


def test_anything_else_stays_as_it_is() -> None:
    counts = Poisson(torch.ones(2))
    assert marginals(counts) is counts

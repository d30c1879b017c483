"""The counts are Poisson draws of the rate that their source states."""

import numpy as np
import torch
from scipy.stats import chisquare, norm, poisson

from deepcanon.data import load_data
from deepcanon.data.sets.poisson_counts import BIAS, WEIGHT


def test_their_rate_is_the_one_stated() -> None:
    data = load_data("poisson-counts")
    x, y = (torch.cat([getattr(data.split(name), field) for name in ("train", "valid", "test")]) for field in "xy")
    rate = np.exp(x.double().numpy() @ np.array(WEIGHT) + BIAS)
    counts = y[:, 0].long().numpy()
    seen = np.bincount(np.minimum(counts, 12), minlength=13)
    expected = np.stack([poisson.pmf(k, rate) for k in range(12)]).sum(1)
    assert chisquare(seen, [*expected, len(counts) - expected.sum()]).pvalue > 1e-4
    off = (counts - rate).sum() / np.sqrt(rate.sum())
    assert abs(off) < norm.isf(1e-5)

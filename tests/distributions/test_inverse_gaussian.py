"""The inverse Gaussian distribution is SciPy's."""

import numpy as np
import torch
from scipy import optimize, stats

from deepcanon.core import draw
from deepcanon.distributions.inverse_gaussian import InverseGaussian

MEANS = (0.1, 1.0, 7.0)


def test_density_and_moments_are_scipys() -> None:
    y = np.geomspace(1e-3, 50, 40)
    for mean in MEANS:
        ours, theirs = InverseGaussian(torch.tensor(mean, dtype=torch.float64)), stats.invgauss(mu=mean)
        np.testing.assert_allclose(ours.log_prob(torch.from_numpy(y)).numpy(), theirs.logpdf(y), rtol=1e-10)
        np.testing.assert_allclose([ours.mean, ours.variance], theirs.stats("mv"), rtol=1e-12)
        top = optimize.minimize_scalar(lambda y: -theirs.logpdf(y), bounds=(1e-4, mean), method="bounded")  # noqa: B023
        np.testing.assert_allclose(ours.mode, top.x, rtol=1e-3)


def test_draws_have_scipys_distribution_and_follow_the_generator() -> None:
    ours = InverseGaussian(torch.tensor(MEANS))
    drawn, again = (draw(ours, torch.Generator().manual_seed(0), (4000,)) for _ in range(2))
    assert torch.equal(drawn, again)
    for column, mean in zip(drawn.T.numpy(), MEANS, strict=True):
        assert stats.kstest(column, stats.invgauss(mu=mean).cdf).pvalue > 1e-3

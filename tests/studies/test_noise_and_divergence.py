"""The identity of KL and Fisher divergence, against the closed forms of Gaussians and torch's divergence."""

import pytest
import torch
from torch.distributions import Normal
from torch.distributions import kl_divergence as torchs

from deepcanon.studies.noise_and_divergence import PAIRS, fisher_divergence, kl_divergence, noise_and_divergence


@pytest.mark.parametrize("t", [0.0, 0.3, 2.0])
def test_both_divergences_of_gaussians_are_the_closed_forms(t: float) -> None:
    m, a, n, b = 0.4, 0.5, -0.7, 1.6
    p, q = ((1.0, m, a),), ((1.0, n, b),)
    double = torch.float64
    normals = [
        Normal(torch.tensor(mean, dtype=double), torch.tensor(v + t, dtype=double).sqrt()) for _, mean, v in (*p, *q)
    ]
    assert kl_divergence(p, q, t) == pytest.approx(float(torchs(*normals)), rel=1e-10)
    # E_p of the squared difference of -(x - m)/a and -(x - n)/b, a polynomial of degree two
    a, b = a + t, b + t
    exact = (1 / a - 1 / b) ** 2 * a + ((m - n) / b) ** 2
    assert fisher_divergence(p, q, t) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("name", PAIRS)
def test_the_divergence_falls_by_half_of_the_fisher_divergence(name: str) -> None:
    p, q = PAIRS[name]
    for t in (0.05, 0.5):
        rate = (kl_divergence(p, q, t + 1e-4) - kl_divergence(p, q, t - 1e-4)) / 2e-4
        assert rate == pytest.approx(-fisher_divergence(p, q, t) / 2, rel=1e-5)


def test_the_integral_over_all_noise_is_the_divergence() -> None:
    """Both sides in closed form for two Gaussians of equal variance: KL = d²/(2v), Fisher = d²/(v + t)²."""
    p, q = ((1.0, 0.0, 1.0),), ((1.0, 1.0, 1.0),)
    assert kl_divergence(p, q, 0.0) == pytest.approx(0.5, rel=1e-10)
    assert fisher_divergence(p, q, 3.0) == pytest.approx(1 / 16, rel=1e-10)


def test_the_study_says_how_well_it_holds() -> None:
    finding = noise_and_divergence(times=4)
    for pair in finding.numbers["pairs"].values():
        assert pair["rate"] == pytest.approx([-fisher / 2 for fisher in pair["fisher"]], rel=1e-4)
        assert pair["kl"] == sorted(pair["kl"], reverse=True)

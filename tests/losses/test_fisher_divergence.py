"""The Fisher divergence against its closed form for Gaussians, and as the speed at which noise makes them alike."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from deepcanon.losses.fisher_divergence import fisher_divergence

MEAN_P, MEAN_Q = (torch.tensor(values, dtype=torch.float64) for values in ([1.0, -0.5], [0.0, 0.8]))
COV_P = torch.tensor([[1.5, 0.6], [0.6, 0.7]], dtype=torch.float64)
COV_Q = torch.tensor([[0.9, -0.3], [-0.3, 1.2]], dtype=torch.float64)


def closed_form(mean_p: Tensor, cov_p: Tensor, mean_q: Tensor, cov_q: Tensor) -> float:
    """E_p |A (x - m_p) - B (x - m_q)|^2 with the precisions A and B: tr((A - B) C_p (A - B)) + |B (m_p - m_q)|^2."""
    a, b = torch.linalg.inv(cov_p), torch.linalg.inv(cov_q)
    return float(((a - b) @ cov_p @ (a - b)).trace() + (b @ (mean_p - mean_q)).square().sum())


def at(t: float) -> tuple[Tensor, Tensor]:
    """Both covariances after noise of variance t."""
    noise = t * torch.eye(2, dtype=torch.float64)
    return COV_P + noise, COV_Q + noise


def kl(t: float) -> float:
    cov_p, cov_q = at(t)
    return float(kl_divergence(MultivariateNormal(MEAN_P, cov_p), MultivariateNormal(MEAN_Q, cov_q)))


def test_it_is_the_closed_form_on_draws_of_p() -> None:
    torch.manual_seed(0)
    x = MultivariateNormal(MEAN_P, COV_P).sample(torch.Size([200_000]))
    p, q = (
        -(x - mean) @ torch.linalg.inv(cov) for mean, cov in ((MEAN_P, COV_P), (MEAN_Q, COV_Q))
    )  # the scores, row by row
    assert fisher_divergence(p, q).item() == pytest.approx(closed_form(MEAN_P, COV_P, MEAN_Q, COV_Q), rel=0.01)
    assert fisher_divergence(p, p).item() == 0


@pytest.mark.parametrize("t", [0.1, 0.5, 2.0])
def test_under_added_noise_the_kl_divergence_falls_by_half_of_it(t: float) -> None:
    step = 1e-4
    slope = (kl(t + step) - kl(t - step)) / (2 * step)
    cov_p, cov_q = at(t)
    assert slope == pytest.approx(-0.5 * closed_form(MEAN_P, cov_p, MEAN_Q, cov_q), rel=1e-6)
    x, weight = nodes_of(MEAN_P, cov_p)
    p, q = (-(x - mean) @ torch.linalg.inv(cov) for mean, cov in ((MEAN_P, cov_p), (MEAN_Q, cov_q)))
    root = weight.mul(len(weight)).sqrt().unsqueeze(1)  # so that the mean over the rows is the one by the weights
    assert slope == pytest.approx(-0.5 * fisher_divergence(root * p, root * q).item(), rel=1e-6)


def nodes_of(mean: Tensor, cov: Tensor) -> tuple[Tensor, Tensor]:
    """Points and weights of Gauss-Hermite quadrature under a Gaussian of two dimensions, exact for polynomials."""
    points, weights = (torch.from_numpy(each) for each in np.polynomial.hermite_e.hermegauss(8))
    unit = torch.cartesian_prod(points, points)
    weight = torch.outer(weights, weights).flatten()
    return mean + unit @ torch.linalg.cholesky(cov).T, weight / weight.sum()

"""The Gaussian Markov random field against the Gaussian of its covariance, and scikit-learn's graphical lasso."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import MultivariateNormal

from deepcanon.core import Batch, UsageError
from deepcanon.models.energy.gaussian_mrf import GaussianMRF


def rows(count: int, features: int, seed: int = 0) -> Tensor:
    """Correlated rows in different units, around a mean of their own."""
    generator = Generator().manual_seed(seed)
    mixing = torch.randn(features, features, generator=generator, dtype=torch.float64)
    x = torch.randn(count, features, generator=generator, dtype=torch.float64) @ mixing
    return x * torch.logspace(-1, 1, features, dtype=torch.float64) + 3


def fitted(x: Tensor, penalty: float) -> GaussianMRF:
    model = GaussianMRF(x.shape[1], penalty, regularization=0)
    model.absorb(Batch(x))
    return model


def test_without_a_penalty_the_precision_is_the_inverse_covariance() -> None:
    x = rows(50, 4)
    model = fitted(x, 0)
    covariance = torch.cov(x.T, correction=0)
    torch.testing.assert_close(model.precision @ covariance, torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-9)
    exact = MultivariateNormal(x.mean(0), covariance)
    torch.testing.assert_close(model.log_prob(x), exact.log_prob(x))
    torch.testing.assert_close(
        -model.energy(x) - exact.log_prob(x), (-model.energy(x) - exact.log_prob(x))[:1].expand(50)
    )


@pytest.mark.parametrize("penalty", [0.02, 0.1, 0.4])
def test_the_precision_is_that_of_the_graphical_lasso_of_scikit_learn(penalty: float) -> None:
    covariance = pytest.importorskip("sklearn.covariance", reason="needs scikit-learn, of deepcanon[oracles]")
    x = rows(80, 6)
    correlation = torch.corrcoef(x.T)
    _, expected = covariance.graphical_lasso(correlation.numpy(), penalty, tol=1e-9, enet_tol=1e-9, max_iter=2000)
    std = x.std(0, correction=0)
    found = fitted(x, penalty).precision * torch.outer(std, std)
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=0, atol=2e-4)


@pytest.mark.parametrize("penalty", [0.05, 0.2])
def test_the_solution_keeps_the_conditions_of_optimality(penalty: float) -> None:
    """The correlations of the model are those of the data on its edges up to the penalty, elsewhere nearer than it."""
    x = rows(60, 5, seed=2)
    std = x.std(0, correction=0)
    theta = fitted(x, penalty).precision * torch.outer(std, std)
    gap = torch.linalg.inv(theta) - torch.corrcoef(x.T)
    off = ~torch.eye(5, dtype=torch.bool)
    edges = (theta != 0) & off
    assert int(edges.sum()) > 0
    torch.testing.assert_close(gap.diagonal(), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-5)
    torch.testing.assert_close(gap[edges], penalty * theta[edges].sign(), rtol=0, atol=1e-5)
    assert float(gap[off].abs().max()) < penalty + 1e-5


def test_conditional_means_are_those_of_the_covariance() -> None:
    x = rows(40, 5)
    model = fitted(x, 0)
    mean, covariance = x.mean(0), torch.cov(x.T, correction=0)
    for i in range(5):
        others = [j for j in range(5) if j != i]
        slope = covariance[i, others] @ torch.linalg.inv(covariance[others][:, others])
        torch.testing.assert_close(model.reconstruct(x)[:, i], mean[i] + (x[:, others] - mean[others]) @ slope)
        variance = covariance[i, i] - slope @ covariance[others, i]
        torch.testing.assert_close(1 / model.precision[i, i], variance)


def test_missing_entries_get_their_mean_given_those_that_are_there() -> None:
    x = rows(40, 4)
    model, holes = fitted(x, 0), x[:3].clone()
    holes[0, [1, 3]], holes[1] = torch.nan, torch.nan
    mean, covariance = x.mean(0), torch.cov(x.T, correction=0)
    there, missing = [0, 2], [1, 3]
    slope = covariance[missing][:, there] @ torch.linalg.inv(covariance[there][:, there])
    found = model.complete(holes)
    torch.testing.assert_close(found[0, missing], mean[missing] + slope @ (x[0, there] - mean[there]))
    torch.testing.assert_close(found[1], mean)
    assert torch.equal(found[2], x[2])
    assert torch.equal(found[0, there], x[0, there])
    assert bool(holes[0, 1].isnan())


def test_a_chain_is_found_as_a_chain() -> None:
    """Of a random walk with friction each step depends on its two neighbors only."""
    generator, steps = Generator().manual_seed(0), [torch.randn(4000, generator=Generator().manual_seed(1))]
    for _ in range(5):
        steps.append(0.4 * steps[-1] + 0.84**0.5 * torch.randn(4000, generator=generator))
    model = fitted(torch.stack(steps, 1), 0.1)
    assert model.edges.tolist() == [[i, i + 1] for i in range(5)]
    assert (model.partial_correlations.diagonal(1) > 0.15).all()
    assert torch.equal(model.partial_correlations.diagonal(), torch.ones(6, dtype=torch.float64))


def test_samples_have_the_covariance() -> None:
    model = fitted(rows(40, 3), 0)
    drawn = model.sample(20000, generator=Generator().manual_seed(0)).double()
    covariance = torch.linalg.inv(model.precision)
    error = ((covariance.square() + torch.outer(covariance.diagonal(), covariance.diagonal())) / 20000).sqrt()
    assert ((torch.cov(drawn.T) - covariance).abs() / error).max() < 4.5


def test_a_penalty_of_one_leaves_independent_features_and_more_is_refused() -> None:
    assert len(fitted(rows(30, 4), 1).edges) == 0
    with pytest.raises(UsageError, match="penalty is that of correlations, from 0 to 1"):
        GaussianMRF(3, penalty=2)

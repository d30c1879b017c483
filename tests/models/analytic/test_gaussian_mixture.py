"""Expectation maximization from the same start takes the steps that scikit-learn's takes."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import mixture
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch, DataError
from deepcanon.models.analytic import gaussian_mixture
from deepcanon.models.analytic.gaussian_mixture import GaussianMixture

Start = tuple[Tensor, Tensor, Tensor]


def clusters(rows: int = 600, seed: int = 0) -> Tensor:
    """Three clusters of different shape in three dimensions, which overlap."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    which = torch.randint(3, (rows,), generator=generator)
    shapes = torch.randn(3, 3, 3, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    centers = torch.tensor([[0.0, 0, 0], [3, 0, 1], [0, 4, -2]], dtype=torch.float64)
    return centers[which] + (shapes[which] @ noise.unsqueeze(-1)).squeeze(-1)


def start(x: Tensor, components: int = 3) -> Start:
    weights = torch.arange(1, components + 1, dtype=torch.float64)
    return weights / weights.sum(), x[:components].clone(), torch.cov(x.T).expand(components, 3, 3)


def ours(x: Tensor, iterations: int, size: int | None = None) -> GaussianMixture:
    model = GaussianMixture(features=3, components=3)
    model.prepare([Batch(x)])
    model.start(*start(x))
    for _ in range(iterations):
        for part in x.split(size or len(x)):
            model.absorb(Batch(part))
    return model


def theirs(x: Tensor, iterations: int) -> mixture.GaussianMixture:
    weights, means, covariances = (part.numpy() for part in start(x))
    oracle = mixture.GaussianMixture(
        3, tol=0.0, max_iter=iterations, reg_covar=1e-6,
        weights_init=weights, means_init=means, precisions_init=np.linalg.inv(covariances),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return oracle.fit(x.numpy())


@pytest.mark.parametrize("iterations", [1, 5, 40])
def test_the_same_iterations_give_the_parameters_and_the_density_of_scikit_learn(iterations: int) -> None:
    x, new = clusters(), clusters(50, seed=1)
    model, oracle = ours(x, iterations), theirs(x, iterations)
    np.testing.assert_allclose(model.weights.numpy(), oracle.weights_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.means.numpy(), oracle.means_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.covariances.numpy(), oracle.covariances_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.log_prob(new).numpy(), oracle.score_samples(new.numpy()), rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.responsibilities(new).numpy(), oracle.predict_proba(new.numpy()), atol=1e-6)


@pytest.mark.parametrize("size", [7, 100, 599])
def test_several_batches_equal_one_big_batch(size: int) -> None:
    x = clusters()
    parts, whole = ours(x, 5, size), ours(x, 5)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], value, rtol=1e-9, atol=1e-9)


def test_parameters_change_only_when_every_example_was_seen() -> None:
    x = clusters()
    model = ours(x, 0)
    model.absorb(Batch(x[:599]))
    assert torch.equal(model.means, x[:3])
    model.absorb(Batch(x[599:]))
    assert not torch.equal(model.means, x[:3])
    assert int(model.seen) == 0


def test_a_fit_that_ended_amid_an_epoch_leaves_nothing_in_the_next() -> None:
    x = clusters()
    fresh, used = GaussianMixture(features=3, components=3), GaussianMixture(features=3, components=3)
    dc.fit(used, dc.from_tensors(x + 7), quiet=True, steps=4, batch_size=256)  # an epoch has three batches
    for model in (fresh, used):
        dc.fit(model, dc.from_tensors(x), quiet=True, epochs=2, batch_size=256)
    assert torch.equal(fresh.means, used.means)


@pytest.mark.slow
def test_an_epoch_of_the_trainer_is_an_iteration_that_does_not_lower_the_likelihood() -> None:
    torch.manual_seed(0)
    x = clusters()
    model = GaussianMixture(features=3, components=3)
    reached = []
    for epochs in (1, 2, 4, 8, 16):
        dc.fit(model, dc.from_tensors(x), quiet=True, epochs=epochs, batch_size=64, seed=3)
        reached.append(float(model.log_prob(x).mean()))
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(reached))
    best = mixture.GaussianMixture(3, n_init=5, random_state=0, tol=1e-6, max_iter=500).fit(x.numpy())
    long = GaussianMixture(features=3, components=3)
    dc.fit(long, dc.from_tensors(x), quiet=True, epochs=300)
    assert float(long.log_prob(x).mean()) == pytest.approx(best.score(x.numpy()), abs=1e-3)


def test_one_component_is_the_gaussian() -> None:
    x = clusters()
    model = GaussianMixture(features=3, components=1)
    model.prepare([Batch(x)])
    covariance = np.cov(x.numpy().T, bias=True) + 1e-6 * np.eye(3)
    exact = stats.multivariate_normal(x.numpy().mean(0), covariance).logpdf(x.numpy())
    np.testing.assert_allclose(model.log_prob(x).numpy(), exact, rtol=0, atol=1e-9)


def test_samples_come_from_the_components_in_their_shares() -> None:
    model = GaussianMixture(features=2, components=2)
    means = torch.tensor([[-10.0, 0.0], [10.0, 0.0]])
    covariances = torch.tensor([[[1.0, 0.5], [0.5, 2.0]], [[3.0, -1.0], [-1.0, 1.0]]])
    model.start(torch.tensor([0.2, 0.8]), means, covariances)
    x = model.sample(100_000, generator=torch.Generator().manual_seed(0)).double()
    right = x[:, 0] > 0
    assert float(right.double().mean()) == pytest.approx(0.8, abs=0.006)
    for k, part in enumerate((x[~right], x[right])):
        assert (part.mean(0) - means[k]).abs().max() < 0.05
        assert (torch.cov(part.T) - covariances[k]).abs().max() < 0.06


def test_the_density_integrates_to_one() -> None:
    torch.manual_seed(0)
    model, batch = GaussianMixture.example()
    model.prepare([batch])
    line = torch.linspace(-15, 25, 401, dtype=torch.float64)
    grid = torch.cartesian_prod(line, line)
    assert float(model.log_prob(grid).exp().sum() * 0.1**2) == pytest.approx(1, abs=1e-6)


def test_k_means_finds_clusters_that_lie_far_apart() -> None:
    torch.manual_seed(0)
    truth = torch.tensor([[0.0, 0], [100, 0], [0, 100], [100, 100]], dtype=torch.float64)
    x = truth.repeat(50, 1) + torch.randn(200, 2, dtype=torch.float64)
    found = gaussian_mixture._k_means(x, 4)
    assert torch.cdist(truth, found).amin(1).max() < 0.5


def test_fewer_examples_than_components_are_refused_and_equal_ones_are_not() -> None:
    model = GaussianMixture(features=2, components=3)
    with pytest.raises(DataError, match="use fewer components"):
        model.prepare([Batch(torch.zeros(2, 2))])
    model.prepare([Batch(torch.ones(9, 2))])
    assert model.log_prob(torch.ones(1, 2)).isfinite().all()

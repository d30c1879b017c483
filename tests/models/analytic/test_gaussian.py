"""The Gaussian is the one of highest likelihood: scikit-learn and scipy are the oracles."""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.covariance import EmpiricalCovariance
from sklearn.mixture import GaussianMixture
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch, DataError, UsageError
from deepcanon.models.analytic.gaussian import Gaussian


def correlated(rows: int = 500, features: int = 5, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(features, features, generator=generator, dtype=torch.float64)
    return torch.randn(rows, features, generator=generator, dtype=torch.float64) @ mixing + 10


def fitted(x: Tensor, *, size: int | None = None, regularization: float = 1e-6) -> Gaussian:
    model = Gaussian(features=x.shape[1], regularization=regularization)
    for part in x.split(size or len(x)):
        model.absorb(Batch(part))
    return model


def test_moments_are_those_of_scikit_learn() -> None:
    x = correlated()
    model, oracle = fitted(x, regularization=0.0), EmpiricalCovariance().fit(x.numpy())
    np.testing.assert_allclose(model.mean.numpy(), oracle.location_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(model.covariance.numpy(), oracle.covariance_, rtol=0, atol=1e-10)


def test_density_is_that_of_scikit_learn_and_of_scipy() -> None:
    x, new = correlated(), correlated(20, seed=1)
    said = fitted(x).log_prob(new).numpy()
    mixture = GaussianMixture(1, reg_covar=1e-6).fit(x.numpy())
    np.testing.assert_allclose(said, mixture.score_samples(new.numpy()), rtol=0, atol=1e-6)
    covariance = np.cov(x.numpy().T, bias=True) + 1e-6 * np.eye(5)
    exact = stats.multivariate_normal(x.numpy().mean(0), covariance).logpdf(new.numpy())
    np.testing.assert_allclose(said, exact, rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", [1, 7, 128, 499])
def test_several_batches_equal_one_big_batch(size: int) -> None:
    x = correlated()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(size))
    parts, whole = fitted(x[order], size=size), fitted(x)
    assert int(parts.count) == len(x)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], value, rtol=1e-11, atol=1e-11)


def test_a_second_epoch_changes_nothing() -> None:
    x = correlated()
    once, twice = fitted(x, size=100), fitted(torch.cat([x, x]), size=100)
    torch.testing.assert_close(twice.factor, once.factor, rtol=1e-11, atol=1e-11)


def test_the_trainer_fits_it_in_one_epoch_of_any_batches() -> None:
    x = correlated()
    model = Gaussian(features=5)
    result = dc.fit(model, dc.from_tensors(x), quiet=True, batch_size=64)
    assert result.steps == 8
    torch.testing.assert_close(model.factor, fitted(x).factor, rtol=1e-11, atol=1e-11)
    entropy = stats.multivariate_normal(cov=np.cov(x.numpy().T, bias=True)).entropy()
    assert result.train["nll"] == pytest.approx(entropy, abs=1e-5)  # the mean of -log p under the data's own moments


def test_far_from_the_origin_no_digits_are_lost() -> None:
    x = correlated()
    near, far = fitted(x, size=50), fitted(x + 1e6, size=50)
    torch.testing.assert_close(far.covariance, near.covariance, rtol=1e-6, atol=1e-6)


def test_samples_have_the_moments_of_the_data() -> None:
    x = correlated()
    seen = fitted(x).sample(200_000, generator=torch.Generator().manual_seed(0)).double()
    std = x.std(0)
    assert ((seen.mean(0) - x.mean(0)).abs() / std).max() < 0.015
    scaled = (torch.cov(seen.T) - torch.cov(x.T, correction=0)) / torch.outer(std, std)
    assert scaled.abs().max() < 0.02


def test_constant_features_need_the_regularization() -> None:
    x = torch.cat([correlated(), torch.ones(500, 1, dtype=torch.float64)], 1)
    assert fitted(x).log_prob(x).isfinite().all()
    with pytest.raises(DataError, match="use a larger regularization"):
        fitted(x, regularization=0.0)
    with pytest.raises(UsageError, match="0 or more"):
        Gaussian(features=2, regularization=-1.0)


def test_single_precision_data_of_many_features_keep_their_density() -> None:
    """64 features of which many hardly vary: a factor in single precision would be noise."""
    digits = dc.load_data("digits:dequantized")
    x = digits.train.x.flatten(1)
    model = Gaussian(features=64)
    model.absorb(Batch(x))
    oracle = GaussianMixture(1, reg_covar=1e-6).fit(x.double().numpy())
    np.testing.assert_allclose(
        model.log_prob(x.double()).numpy(), oracle.score_samples(x.double().numpy()), rtol=1e-6, atol=1e-6
    )

"""Probabilistic PCA: scikit-learn's PCA and the density of the full matrix are the oracles."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor
from torch.distributions import MultivariateNormal

import deepcanon as dc
from deepcanon import laws
from deepcanon.core import Batch, UsageError
from deepcanon.data.tables.table import feature_scales, log_det_of_scaling
from deepcanon.models.analytic.ppca import PPCA


def low_rank(rows: int = 300, features: int = 6, latent: int = 3, noise: float = 0.3, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    weight = 2 * torch.randn(latent, features, generator=generator, dtype=torch.float64)
    z, e = (torch.randn(rows, size, generator=generator, dtype=torch.float64) for size in (latent, features))
    return z @ weight + noise * e + 5


def fitted(x: Tensor, latent: int = 3, *, size: int | None = None, regularization: float = 0.0) -> PPCA:
    model = PPCA(features=x.shape[1], latent=latent, regularization=regularization)
    for part in x.split(size or len(x)):
        model.absorb(Batch(part))
    return model


def sklearn_pca(x: Tensor, latent: int) -> PCA:
    """scikit-learn divides by n - 1; its variances are brought to those of highest likelihood."""
    pca = PCA(latent, svd_solver="full").fit(x.numpy())
    factor = (len(x) - 1) / len(x)
    pca.explained_variance_ *= factor
    pca.noise_variance_ *= factor
    return pca


@pytest.mark.parametrize("latent", [1, 3, 5])
def test_parameters_and_density_are_those_of_scikit_learn(latent: int) -> None:
    x, new = low_rank(), low_rank(20, seed=0) + 0.1
    model, oracle = fitted(x, latent), sklearn_pca(x, latent)
    np.testing.assert_allclose(model.directions.numpy().T, oracle.components_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.variances.numpy(), oracle.explained_variance_, rtol=1e-9)
    np.testing.assert_allclose(float(model.noise), oracle.noise_variance_, rtol=1e-9)
    np.testing.assert_allclose(model.log_prob(new).numpy(), oracle.score_samples(new.numpy()), rtol=0, atol=1e-6)


def test_density_and_posterior_are_those_of_the_joint_gaussian() -> None:
    x = low_rank()
    model, new = fitted(x), x[:10]
    weight, eye = model.weight, torch.eye(6, dtype=torch.float64)
    full = weight @ weight.T + model.noise * eye
    torch.testing.assert_close(model.log_prob(new), MultivariateNormal(model.mean, full).log_prob(new))
    posterior = model.encode(new)
    gain = weight.T @ torch.linalg.inv(full)  # of Bayes' rule for joint Gaussians
    torch.testing.assert_close(posterior.mean, (new - model.mean) @ gain.T)
    covariance = torch.eye(3, dtype=torch.float64) - gain @ weight
    torch.testing.assert_close(covariance, posterior.variance[0].diag(), atol=1e-12, rtol=1e-9)


def test_no_other_parameters_are_likelier() -> None:
    """Along random lines away from the closed form the likelihood falls."""
    x = low_rank()
    model = fitted(x)
    generator = torch.Generator().manual_seed(0)
    best = float(model.log_prob(x).sum())
    for _ in range(20):
        step = 0.03 * torch.randn(6, 3, generator=generator, dtype=torch.float64)
        weight = model.weight + step
        noise = model.noise * (1 + 0.02 * torch.randn((), generator=generator, dtype=torch.float64))
        full = weight @ weight.T + noise * torch.eye(6, dtype=torch.float64)
        assert float(MultivariateNormal(model.mean, full).log_prob(x).sum()) < best


def test_several_batches_equal_one_big_batch() -> None:
    x = low_rank()
    parts, whole = fitted(x[torch.arange(300).flip(0)], size=37), fitted(x)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], value, rtol=1e-9, atol=1e-9)


def test_the_trainer_fits_it_in_one_epoch() -> None:
    x = low_rank()
    model = PPCA(features=6, latent=3)
    result = dc.fit(model, dc.from_tensors(x), quiet=True, batch_size=50)
    assert result.steps == 6
    torch.testing.assert_close(model.variances, fitted(x, regularization=1e-6).variances)


def test_a_fitted_model_keeps_the_laws_of_latent_variable_models() -> None:
    x = low_rank(64, features=4, latent=2, noise=0.7)
    found = laws.check((fitted(x, 2), Batch(x)), "latent")
    assert all(outcome.holds for outcome in found), laws.report(found)
    assert len(found) == 7


def test_without_noise_the_reconstruction_is_the_projection_of_pca() -> None:
    x = low_rank(noise=1e-5)
    projected = PCA(3).fit(x.numpy())
    wanted = projected.inverse_transform(projected.transform(x.numpy()))
    np.testing.assert_allclose(fitted(x).reconstruct(x).numpy(), wanted, rtol=0, atol=1e-6)


def test_data_of_lower_rank_stay_finite() -> None:
    x = low_rank(noise=0.0, latent=1)
    assert fitted(x, 2, regularization=1e-6).log_prob(x).isfinite().all()


def test_the_size_of_the_code() -> None:
    assert PPCA(features=64).latent == 8
    assert PPCA(features=2).latent == 1
    for latent in (0, 4):
        with pytest.raises(UsageError, match="latent must be"):
            PPCA(features=4, latent=latent)


def test_of_a_standardized_table_it_is_the_model_of_the_table_as_given(tmp_path: Path) -> None:
    """Columns of other variances: isotropic noise of the one is none of the other. The score is scikit-learn's."""
    random = np.random.default_rng(0)
    weight = np.array([[8.0, 3.0, -2.0, 0.5, 1.0, 0.1], [0.0, 1.0, 4.0, 0.2, -6.0, 0.3]])
    rows = random.normal(size=(400, 2)) @ weight + 0.5 * random.normal(size=(400, 6)) + [10, -5, 0, 3, 1, 100]
    file = tmp_path / "planted.csv"
    np.savetxt(file, rows, delimiter=",", header="a,b,c,d,e,f", comments="")
    data = dc.load_data(str(file))
    means = np.array([column["mean"] for column in data.preprocessing["columns"]])
    scales = np.array(feature_scales(data.preprocessing))
    train, test = (
        data.split(name).x.double() * torch.tensor(scales) + torch.tensor(means) for name in ("train", "test")
    )
    model = PPCA(features=6, latent=2, regularization=0.0)
    dc.fit(model, data, quiet=True)
    held, as_given = data.split("test"), test.numpy()
    oracle = sklearn_pca(train, 2)
    scaling = log_det_of_scaling(data.preprocessing, held.x).numpy()
    np.testing.assert_allclose(
        model.log_prob(held.x.double()).numpy() + scaling, oracle.score_samples(as_given), rtol=0, atol=1e-3
    )
    drawn = model.sample(40_000, generator=torch.Generator().manual_seed(0)).numpy() * scales
    np.testing.assert_allclose(np.cov(drawn.T), oracle.get_covariance(), rtol=0, atol=1.0)
    z = model.encode(held.x).mean
    again = model.decode(z)
    mean = (oracle.inverse_transform(oracle.transform(as_given)) - as_given) / scales
    gap = (again.mean - held.x).numpy()
    assert float(np.abs(gap - mean).max()) < 0.05  # the posterior's mean is a little nearer to zero
    torch.testing.assert_close(model.reconstruct(held.x), again.mean)


def test_of_columns_in_very_different_units_the_regularization_is_not_the_noise(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(300, 4)) * [1e5, 30.0, 2.0, 0.5]
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", header="a,b,c,d", comments="")
    data = dc.load_data(str(tmp_path / "a.csv"))
    scales = torch.tensor(feature_scales(data.preprocessing))
    model = PPCA(features=4, latent=2)
    dc.fit(model, data, quiet=True)
    held = data.split("test").x
    wanted = sklearn_pca(data.train.x.double() * scales, 2).score((held.double() * scales).numpy())
    scaling = log_det_of_scaling(data.preprocessing, held)
    assert float((model.log_prob(held.double()) + scaling).mean()) == pytest.approx(wanted, abs=1e-3)

"""The full-covariance VAE: on linear-Gaussian models its posterior is exact and the bound is the log-likelihood."""

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from deepcanon.core import Batch
from deepcanon.data import from_tensors
from deepcanon.models.variational.full_covariance_vae import FullCovarianceVAE
from deepcanon.models.variational.vae import VAE
from deepcanon.train import fit


def decoder_of(model: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The weights, the bias and the variance of a linear decoder."""
    (layer,) = model.decoder.net.children()
    return layer.weight.detach(), layer.bias.detach(), model.decoder.likelihood.scale.detach().square()


def marginal(model: Any) -> MultivariateNormal:
    weight, bias, variance = decoder_of(model)
    return MultivariateNormal(bias, weight @ weight.T + variance * torch.eye(len(weight), dtype=weight.dtype))


def posterior(model: Any, x: Tensor) -> MultivariateNormal:
    """The exact p(z | x) of a linear decoder."""
    weight, bias, variance = decoder_of(model)
    precision = torch.eye(weight.shape[1], dtype=weight.dtype) + weight.T @ weight / variance
    covariance = torch.linalg.inv(precision)
    return MultivariateNormal((x - bias) @ weight @ covariance / variance, covariance)


def with_exact_encoder(model: FullCovarianceVAE) -> FullCovarianceVAE:
    """The model with the encoder of its linear decoder, written down."""
    weight, bias, variance = decoder_of(model)
    exact = posterior(model, bias.unsqueeze(0))
    (layer,) = model.encoder.children()
    assert isinstance(layer, torch.nn.Linear)
    gain = exact.covariance_matrix[0] @ weight.T / variance
    factor = exact.scale_tril[0]
    row, column = torch.tril_indices(model.latent, model.latent, offset=-1)
    with torch.no_grad():
        layer.weight.zero_()[: model.latent] = gain
        scale = factor.diagonal()
        layer.bias.copy_(torch.cat([-gain @ bias, scale.log(), factor[row, column] / scale[row]]))
    return model


def linear(features: int = 6, latent: int = 3) -> FullCovarianceVAE:
    torch.manual_seed(0)
    return FullCovarianceVAE(features, latent, hidden=()).double()


def test_with_the_exact_posterior_every_draw_of_the_bound_is_the_log_likelihood() -> None:
    model = with_exact_encoder(linear())
    x = model.sample(20, generator=Generator().manual_seed(0))
    wanted = marginal(model).log_prob(x)
    with torch.no_grad():
        terms = model.loss(Batch(x))
        torch.testing.assert_close(model.log_prob(x, samples=1), wanted, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(model.log_prob(x, samples=7), wanted, rtol=1e-9, atol=1e-9)
        found = model.encode(x)
        many = -torch.stack([torch.stack(list(model.loss(Batch(x)).values())).sum() for _ in range(400)])
    assert isinstance(found, MultivariateNormal)
    torch.testing.assert_close(found.mean, posterior(model, x).mean)
    torch.testing.assert_close(found.covariance_matrix, posterior(model, x).covariance_matrix)
    assert terms.keys() == {"reconstruction", "kl"}
    assert abs(float(many.mean() - wanted.mean())) < 5 * float(many.std()) / math.sqrt(400)


def test_no_diagonal_posterior_reaches_it_where_the_latents_are_correlated() -> None:
    """The best diagonal Gaussian misses by (sum log L_jj - log det L) / 2 nats, L being the posterior's precision."""
    model = linear()
    x = model.sample(5, generator=Generator().manual_seed(0))
    exact = posterior(model, x)
    precision = exact.precision_matrix[0]
    wanted = 0.5 * (precision.diagonal().log().sum() - torch.logdet(precision))
    best = MultivariateNormal(exact.mean, torch.diag(1 / precision.diagonal()))
    torch.testing.assert_close(kl_divergence(best, exact), wanted.expand(5))
    assert wanted > 0.01


def test_the_kl_is_that_of_torch_and_the_factor_is_lower_triangular() -> None:
    model, batch = FullCovarianceVAE.example()
    x, model = batch.x.double(), model.double()
    found = model.encode(x)
    assert isinstance(found, MultivariateNormal)
    standard = MultivariateNormal(torch.zeros(2, dtype=x.dtype), torch.eye(2, dtype=x.dtype))
    torch.testing.assert_close(model.bound(x)[1], kl_divergence(found, standard))
    assert torch.equal(found.scale_tril.triu(1), torch.zeros(32, 2, 2, dtype=x.dtype))
    assert (found.scale_tril.diagonal(dim1=-2, dim2=-1) > 0).all()


def test_one_latent_has_nothing_below_the_diagonal_and_is_a_vae() -> None:
    torch.manual_seed(0)
    full = FullCovarianceVAE(4, latent=1, hidden=(8,))
    plain = VAE(4, latent=1, hidden=(8,))
    plain.load_state_dict(full.state_dict())
    x = torch.randn(16, 4)
    one, other = (model.log_prob(x, samples=5, generator=Generator().manual_seed(0)) for model in (full, plain))
    torch.testing.assert_close(one, other)


@pytest.mark.slow
def test_training_reaches_the_likelihood_of_probabilistic_pca_and_the_exact_posterior() -> None:
    features, latent = 6, 2
    generator = Generator().manual_seed(1)
    weight = torch.randn(features, latent, generator=generator)
    x = torch.randn(4000, latent, generator=generator) @ weight.T + 0.5 * torch.randn(
        4000, features, generator=generator
    )
    torch.manual_seed(0)
    model = FullCovarianceVAE(features, latent, hidden=())
    fit(
        model, from_tensors(x), quiet=True, seed=0, lr=0.03, batch_size=64, epochs=15, schedule="cosine", evaluate=False
    )
    model, x = model.double(), x.double()
    values = torch.linalg.eigvalsh(torch.cov(x.T, correction=0)).flip(0)
    noise = values[latent:].mean()  # Tipping and Bishop (1999), equations 8 and 12
    log_det = values[:latent].log().sum() + (features - latent) * noise.log()
    best = float(-0.5 * (features * math.log(2 * math.pi) + log_det + features))
    with torch.no_grad():
        exact = float(marginal(model).log_prob(x).mean())
        bound = torch.stack([model.log_prob(x).mean() for _ in range(30)])
        found, wanted = model.encode(x[:100]), posterior(model, x[:100])
    error = float(bound.std()) / math.sqrt(30)
    assert exact <= best + 1e-9
    assert best - exact < 0.01 * features
    assert -5 * error < exact - float(bound.mean()) < 0.01 + 5 * error, "the bound is tight"
    assert isinstance(found, MultivariateNormal)
    ratio = found.covariance_matrix.mean(0) @ wanted.precision_matrix[0]
    torch.testing.assert_close(ratio, torch.eye(2, dtype=x.dtype), rtol=0, atol=0.15)

"""The VAE: its linear case against probabilistic PCA and Gaussian marginals in closed form."""

import math

import pytest
import torch
from torch import Generator, Tensor
from torch.distributions import MultivariateNormal

from deepcanon.core import Batch, DataError, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.distributions.likelihoods import GaussianLikelihood, LikelihoodName
from deepcanon.models.variational.vae import VAE
from deepcanon.train import evaluate, fit


def linear_gaussian_data(rows: int, features: int, latent: int, seed: int) -> Tensor:
    generator = Generator().manual_seed(seed)
    weight = torch.randn(features, latent, generator=generator)
    code, noise = (torch.randn(rows, size, generator=generator) for size in (latent, features))
    return code @ weight.T + 0.5 * noise + torch.randn(features, generator=generator)


def probabilistic_pca(x: Tensor, latent: int) -> float:
    """The largest mean log-likelihood of any linear-Gaussian model: Tipping and Bishop (1999), equations 8 and 12."""
    features = x.shape[1]
    values = torch.linalg.eigvalsh(torch.cov(x.T, correction=0)).flip(0)
    noise = values[latent:].mean()
    log_det = values[:latent].log().sum() + (features - latent) * noise.log()
    return float(-0.5 * (features * math.log(2 * math.pi) + log_det + features))


def marginal(model: VAE) -> MultivariateNormal:
    """The exact p(x) of a VAE without hidden layers: N(b, W W' + s^2 I)."""
    (linear,) = model.decoder.net.children()
    likelihood = model.decoder.likelihood
    assert isinstance(linear, torch.nn.Linear)
    assert isinstance(likelihood, GaussianLikelihood)
    weight = linear.weight.detach()
    covariance = weight @ weight.T + likelihood.scale.detach() ** 2 * torch.eye(len(weight), dtype=weight.dtype)
    return MultivariateNormal(linear.bias.detach(), covariance)


def averaged_bound(model: VAE, x: Tensor, draws: int = 100) -> tuple[float, float]:
    """The mean evidence lower bound over several draws, and its standard error."""
    with torch.no_grad():
        means = torch.stack([model.log_prob(x, generator=Generator().manual_seed(i)).mean() for i in range(draws)])
    return means.mean().item(), means.std().item() / math.sqrt(draws)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_the_linear_vae_reaches_probabilistic_pca_and_never_passes_it(seed: int) -> None:
    features, latent = 6, 2
    data = from_tensors(linear_gaussian_data(4000, features, latent, seed)).with_validation_split(0)
    torch.manual_seed(seed)
    model = VAE(features, latent=latent, hidden=())
    fit(model, data, quiet=True, seed=seed, lr=0.05, batch_size=64, epochs=30, schedule="cosine", evaluate=False)
    model, x = model.double(), data.train.x.double()
    best = probabilistic_pca(x, latent)
    exact = marginal(model).log_prob(x).mean().item()
    bound, error = averaged_bound(model, x)
    assert best - bound <= 0.02 * features
    assert exact <= best + 1e-9
    assert bound <= exact + 5 * error


def test_the_bounds_lie_below_the_exact_evidence_and_10000_samples_reach_it() -> None:
    torch.manual_seed(0)
    model = VAE(features=4, latent=2, hidden=()).double()
    for parameter in model.encoder.parameters():
        torch.nn.init.zeros_(parameter)  # q is the prior: a loose bound, and weights without heavy tails
    x = model.sample(6, generator=Generator().manual_seed(0))
    exact = marginal(model).log_prob(x)
    with torch.no_grad():
        tight = torch.stack(
            [model.log_prob(x, samples=10_000, generator=Generator().manual_seed(seed)) for seed in range(10)]
        )
    bound, error = averaged_bound(model, x)
    assert bound + 5 * error < tight.mean().item() - 0.1
    noise = tight.std(0)
    assert noise.max() < 0.1
    assert ((tight.mean(0) - exact).abs() < 5 * noise / math.sqrt(10)).all()


def test_chunks_do_not_change_the_importance_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = VAE.example()
    model = model.double()
    x = batch.x[:3].double()
    whole = model.log_prob(x, samples=64, generator=Generator().manual_seed(0))
    monkeypatch.setattr("deepcanon.models.variational._variational.CHUNK", 12 * 16)
    parts = model.log_prob(x, samples=64, generator=Generator().manual_seed(0))
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)


def test_the_kl_is_that_of_the_formula() -> None:
    model, batch = VAE.example()
    model = model.double()
    x = batch.x.double()
    posterior = model.encode(x)
    mean, variance = posterior.mean, posterior.variance
    formula = 0.5 * (mean**2 + variance - 1 - variance.log()).sum(-1)
    torch.testing.assert_close(model.bound(x)[1], formula, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_the_terms_add_up_to_minus_the_bound(likelihood: LikelihoodName) -> None:
    torch.manual_seed(0)
    model = VAE(features=5, latent=2, hidden=(7,), likelihood=likelihood).double()
    x = torch.randint(0, 2, (16, 5)).double() if likelihood == "bernoulli" else torch.randn(16, 5).double()
    torch.manual_seed(1)
    terms = model.loss(Batch(x))
    torch.manual_seed(1)
    torch.testing.assert_close(-model.log_prob(x).mean(), terms["reconstruction"] + terms["kl"])
    assert terms.keys() == {"reconstruction", "kl"}


def test_the_gradient_is_that_of_the_bound_under_common_noise() -> None:
    torch.manual_seed(0)
    model, batch = VAE.example()
    model = model.double()
    names, values = zip(*model.named_parameters(), strict=True)

    def loss(*parameters: Tensor) -> Tensor:
        torch.manual_seed(1)
        terms = torch.func.functional_call(
            _Loss(model), {f"model.{name}": value for name, value in zip(names, parameters, strict=True)}, (x,)
        )
        assert isinstance(terms, Tensor)
        return terms

    x = batch.x[:4].double()
    assert torch.autograd.gradcheck(loss, tuple(value.detach().requires_grad_() for value in values))


class _Loss(torch.nn.Module):
    def __init__(self, model: VAE) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack(list(self.model.loss(Batch(x)).values())).sum()


def test_the_loss_of_more_draws_has_the_same_mean_and_less_variance() -> None:
    """The linear decoder has the expectation in closed form, and the variance of a mean of L draws is 1/L of that."""
    found = {}
    for draws in (1, 8):
        torch.manual_seed(0)
        model = VAE(features=4, latent=2, hidden=(), draws=draws).double()
        x = torch.randn(1, 4, dtype=torch.float64)
        (layer,) = model.decoder.net.children()
        assert isinstance(layer, torch.nn.Linear)
        posterior, scale = model.encode(x), model.decoder.likelihood.distribution(x).stddev[0, 0]
        error = (x - layer(posterior.mean)).square().sum() + (layer.weight * posterior.stddev).square().sum()
        exact = 0.5 * error / scale**2 + 4 * (scale.log() + 0.5 * math.log(2 * math.pi))
        with torch.no_grad():
            losses = model.bound(x.expand(20_000, -1))[0]
        assert abs(losses.mean() - exact) < 5 * losses.std() / math.sqrt(20_000)
        found[draws] = losses.var().item()
    assert 8 / 1.1 < found[1] / found[8] < 8 * 1.1


def test_samples_have_the_moments_of_the_exact_marginal() -> None:
    torch.manual_seed(0)
    model = VAE(features=3, latent=2, hidden=()).double()
    x = model.sample(100_000, generator=Generator().manual_seed(0))
    exact = marginal(model)
    torch.testing.assert_close(x.mean(0), exact.mean, rtol=0, atol=0.02)
    torch.testing.assert_close(torch.cov(x.T), exact.covariance_matrix, rtol=0, atol=0.02)


def test_binary_samples_are_drawn_with_the_probabilities_of_the_decoder() -> None:
    torch.manual_seed(0)
    model = VAE(features=4, latent=1, hidden=(8,), likelihood="bernoulli").double()
    x = model.sample(50_000, generator=Generator().manual_seed(0))
    assert set(x.unique().tolist()) == {0.0, 1.0}
    z = torch.randn(200_000, 1, generator=Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(x.mean(0), model.decoder(z).detach().mean(0), rtol=0, atol=0.01)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_samples_repeat_with_the_generator_and_leave_the_global_one_alone(likelihood: LikelihoodName) -> None:
    model = VAE(features=4, latent=2, hidden=(8,), likelihood=likelihood)
    state = torch.get_rng_state()
    first, again, other = (model.sample(20, generator=Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_decoder_has_the_encoders_layers_in_reverse() -> None:
    model = VAE(features=9, latent=2, hidden=(7, 5))
    shapes = [[tuple(p.shape) for p in part.parameters() if p.ndim == 2] for part in (model.encoder, model.decoder)]
    assert shapes == [[(7, 9), (5, 7), (4, 5)], [(5, 2), (7, 5), (9, 7)]]


def test_the_decoder_is_the_mean_and_a_reconstruction_has_the_shape_of_its_original() -> None:
    for likelihood in ("gaussian", "bernoulli"):
        model = VAE(features=12, latent=3, likelihood=likelihood).double()
        z = torch.randn(5, 3, dtype=torch.float64)
        torch.testing.assert_close(model.decoder(z), model.decode(z).mean)
        x = torch.rand(5, 3, 2, 2, dtype=torch.float64)
        expected = model.decoder(model.encode(x).mean)
        torch.testing.assert_close(model.reconstruct(x), expected.reshape(5, 3, 2, 2))
        torch.testing.assert_close(model(x), expected)


def test_binary_models_train_on_gray_values_but_give_them_no_probability() -> None:
    torch.manual_seed(0)
    model = VAE(features=4, latent=2, hidden=(8,), likelihood="bernoulli")
    gray, black_and_white = torch.rand(64, 4), torch.randint(0, 2, (64, 4)).float()
    fit(model, from_tensors(gray), quiet=True, epochs=1)
    with pytest.raises(DataError, match="0 and 1 only"):
        model.log_prob(gray)
    assert model.log_prob(black_and_white).isfinite().all()
    assert "nll" not in evaluate(model, Batch(gray))
    assert "nll" in evaluate(model, Batch(black_and_white))
    assert (model.support, VAE(features=4).support) == ("binary", "real")


def test_binary_models_refuse_values_on_which_their_loss_has_no_minimum() -> None:
    model = VAE(features=4, latent=2, hidden=(8,), likelihood="bernoulli")
    with pytest.raises(DataError, match="from 0 to 1, these go from -1 to 3"):
        model.prepare([Batch(torch.zeros(1, 4)), Batch(torch.tensor([[-1.0, 0.0, 1.0, 3.0]]))])


def test_bfloat16_gives_nearly_the_loss_of_float32() -> None:
    torch.manual_seed(0)
    model = VAE(features=64)
    batch = Batch(torch.rand(32, 64))
    losses = []
    for enabled in (False, True):
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            terms = model.loss(batch)
        assert all(term.dtype == torch.float32 for term in terms.values())
        losses.append(sum(term.item() for term in terms.values()))
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
    assert losses[1] != losses[0]


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="latent must be at least 1"):
        VAE(features=4, latent=0)
    with pytest.raises(UsageError, match="draws must be at least 1"):
        VAE(features=4, draws=0)
    with pytest.raises(UsageError, match="likelihood must be one of gaussian, bernoulli"):
        VAE(features=4, likelihood="poisson")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="samples must be at least 1"):
        VAE(features=4).log_prob(torch.zeros(1, 4), samples=0)
    with pytest.raises(DataError, match="examples of 4 features"):
        VAE(features=4).encode(torch.zeros(1, 5))


@pytest.mark.slow
def test_after_training_the_bound_of_every_digit_stays_below_10000_importance_samples() -> None:
    data = load_data("digits:binary")
    torch.manual_seed(0)
    model = VAE(64, likelihood="bernoulli")
    fit(model, data, quiet=True, epochs=10)
    x = data.split("test").x[:30]
    with torch.no_grad():
        estimate = model.log_prob(x, samples=10_000, generator=Generator().manual_seed(0))
        draws = model.log_prob(x.repeat(400, 1, 1, 1), generator=Generator().manual_seed(1)).view(400, -1)
    bound, error = draws.mean(0), draws.std(0) / 20
    assert (bound <= estimate + 5 * error).all()
    assert (bound + 5 * error < estimate).double().mean() > 0.5, "a real posterior is not Gaussian: the gap is seen"

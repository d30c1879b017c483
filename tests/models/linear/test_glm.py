"""Generalized linear models: the optima of scikit-learn and SciPy, the fixed point of IRLS, and torch's densities."""

import pickle
from dataclasses import asdict
from typing import get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import optimize, stats
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from torch import Generator, Tensor
from torch.distributions import Bernoulli, Distribution, Gamma, Normal, Poisson

from deepcanon.core import DataError, Labeled, UsageError, draw
from deepcanon.data import from_tensors, load_data
from deepcanon.data.sets.poisson_counts import BIAS, WEIGHT
from deepcanon.distributions.inverse_gaussian import InverseGaussian
from deepcanon.models.linear._convex import convex
from deepcanon.models.linear.glm import FAMILIES, GLM, Family
from deepcanon.train import fit

NAMES: tuple[Family, ...] = get_args(Family)
NEGATIVE = ("gamma", "inverse_gaussian")


def density(family: str, eta: Tensor) -> Distribution:
    if family == "gaussian":
        return Normal(eta, 1.0)
    if family == "bernoulli":
        return Bernoulli(logits=eta)
    if family == "poisson":
        return Poisson(eta.exp())
    return Gamma(1.0, -eta) if family == "gamma" else InverseGaussian((-2 * eta) ** -0.5)


def drawn(family: str, count: int = 300) -> Labeled:
    generator = Generator().manual_seed(0)
    x = 2 * torch.rand(count, 3, generator=generator, dtype=torch.float64) - 1
    eta = x @ torch.tensor([[0.5], [-0.4], [0.2]], dtype=torch.float64) + (-1.5 if family in NEGATIVE else 0.3)
    return Labeled(x, draw(density(family, eta), generator))


def untrained(family: Family) -> GLM:
    """With weights so small that no natural parameter changes its sign."""
    model = GLM(features=3, targets=1, family=family).double()
    torch.nn.init.uniform_(model.linear.weight, -0.3, 0.3)
    return model


def fitted(family: Family, batch: Labeled) -> GLM:
    model = GLM(features=3, targets=1, family=family).double()
    fit(model, from_tensors(batch.x, batch.y), quiet=True, **asdict(convex(epochs=1, iterations=500)))
    return model


def weights(model: GLM) -> NDArray[np.float64]:
    return torch.cat([model.linear.weight[0], model.linear.bias]).detach().numpy()


def test_families_of_all_numbers_have_scikit_learns_optimum() -> None:
    oracles = {
        "gaussian": LinearRegression(),
        "bernoulli": LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000),
        "poisson": PoissonRegressor(alpha=0, tol=1e-12, max_iter=1000),
    }
    for family in NAMES[:3]:
        batch = drawn(family)
        oracle = oracles[family].fit(batch.x.numpy(), batch.y[:, 0].numpy())
        expected = np.append(oracle.coef_, oracle.intercept_)
        np.testing.assert_allclose(weights(fitted(family, batch)), expected, rtol=0, atol=1e-4)


def test_the_default_recipe_finds_scikit_learns_optimum_of_large_counts() -> None:
    """Their logarithm is far from where training begins."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (100, 3))
    counts = random.poisson(np.exp(x @ [0.5, -0.4, 0.2] + 5)).astype(float)
    oracle = PoissonRegressor(alpha=0, tol=1e-12, max_iter=1000).fit(x, counts)
    model = GLM(features=3, targets=1, family="poisson").double()
    fit(model, from_tensors(torch.from_numpy(x), torch.from_numpy(counts)), quiet=True)
    np.testing.assert_allclose(weights(model), np.append(oracle.coef_, oracle.intercept_), rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", NEGATIVE)
def test_families_of_negative_numbers_have_the_optimum_of_scipys_densities(family: Family) -> None:
    """The gamma density is one of another dispersion than ours, on which the optimum does not depend."""
    batch = drawn(family)
    rows, y = np.column_stack([batch.x.numpy(), np.ones(len(batch))]), batch.y[:, 0].numpy()

    def minus_log_likelihood(guess: NDArray[np.float64]) -> float:
        eta = rows @ guess
        if eta.max() >= 0:
            return float("inf")
        if family == "gamma":
            return -float(stats.gamma.logpdf(y, a=3, scale=-1 / eta / 3).mean())
        return -float(stats.invgauss.logpdf(y, mu=(-2 * eta) ** -0.5).mean())

    found = optimize.minimize(
        minus_log_likelihood, [0, 0, 0, -1], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-13}
    )
    assert found.success
    np.testing.assert_allclose(weights(fitted(family, batch)), found.x, rtol=0, atol=1e-4)


def test_shares_of_trials_have_the_optimum_of_the_binomial_family() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (200, 3))
    successes = random.binomial(5, 1 / (1 + np.exp(-x @ [0.5, -0.4, 0.2])))
    oracle = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(
        np.concatenate([x, x]), np.repeat([1, 0], 200), sample_weight=np.concatenate([successes, 5 - successes])
    )
    model = fitted("bernoulli", Labeled(torch.from_numpy(x), torch.from_numpy(successes / 5).unsqueeze(1)))
    expected = np.append(oracle.coef_, oracle.intercept_)
    np.testing.assert_allclose(weights(model), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("family", NAMES)
def test_the_optimum_is_the_fixed_point_of_iteratively_reweighted_least_squares(family: Family) -> None:
    batch = drawn(family)
    model = fitted(family, batch)
    rows = np.column_stack([batch.x.numpy(), np.ones(len(batch))])
    before = weights(model)
    eta = rows @ before
    mean = model.predict(batch.x, how="mean")[:, 0].numpy()
    variances = (np.ones_like(mean), mean * (1 - mean), mean, mean**2, mean**3)
    variance = dict(zip(NAMES, variances, strict=True))[family]
    answer = eta + (batch.y[:, 0].numpy() - mean) / variance
    root = np.sqrt(variance)
    after = np.linalg.lstsq(rows * root[:, None], answer * root)[0]
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-5)
    np.testing.assert_allclose(rows.T @ (batch.y[:, 0].numpy() - mean) / len(batch), 0, atol=1e-5)


@pytest.mark.parametrize("family", NAMES)
def test_the_loss_is_the_negative_log_likelihood(family: Family) -> None:
    batch = drawn(family)
    for seed in range(3):
        torch.manual_seed(seed)
        model = untrained(family)
        exact = -density(family, model(batch.x)).log_prob(batch.y).mean()
        torch.testing.assert_close(model.loss(batch)["nll"], exact, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("family", NAMES)
def test_the_mean_is_the_derivative_of_the_log_normalizer(family: Family) -> None:
    most = -0.1 if family in NEGATIVE else 4
    eta = torch.linspace(-4, most, 17, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(FAMILIES[family].log_normalizer(eta).sum(), eta)
    torch.testing.assert_close(FAMILIES[family].mean(eta), slope, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(density(family, eta.detach()).mean, slope, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("family", NAMES)
def test_with_its_canonical_link_the_delta_of_each_example_is_the_mean_minus_the_target(family: Family) -> None:
    batch = drawn(family, count=20)
    torch.manual_seed(0)
    model = untrained(family)
    etas: list[Tensor] = []
    model.register_forward_hook(lambda module, inputs, eta: etas.append(eta))
    (delta,) = torch.autograd.grad(model.loss(batch)["nll"], etas)
    answer = density(family, etas[0].detach()).mean
    torch.testing.assert_close(delta * len(batch), answer - batch.y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("family", NAMES)
def test_draws_have_the_mean_and_the_mode_is_the_likeliest(family: Family) -> None:
    model = GLM(features=1, targets=1, family=family).double()
    torch.nn.init.ones_(model.linear.weight)
    x = torch.tensor([[-0.7], [0.2], [0.6]], dtype=torch.float64)
    many = model.predict(x.repeat(4000, 1), how="sample", generator=Generator().manual_seed(0)).reshape(4000, 3)
    torch.testing.assert_close(many.mean(0), model.predict(x, how="mean")[:, 0], rtol=0, atol=0.15)
    likely = density(family, model(x))
    best = likely.log_prob(model.predict(x, how="mode"))
    tried = many[:200].unsqueeze(2)  # (draws, examples, 1)
    assert bool((likely.log_prob(tried) <= best + 1e-12).all())


@pytest.mark.slow
def test_counts_give_back_the_rate_they_were_drawn_with() -> None:
    data = load_data("poisson-counts")
    model = GLM(features=2, targets=1, family="poisson")
    fit(model, data, quiet=True)
    found = torch.cat([model.linear.weight[0], model.linear.bias]).detach()
    torch.testing.assert_close(found, torch.tensor([*WEIGHT, BIAS]), rtol=0, atol=0.05)


def test_it_can_be_pickled_by_those_who_must() -> None:
    model, batch = GLM.example()
    again = pickle.loads(pickle.dumps(model))
    assert torch.equal(again(batch.x), model(batch.x))


def test_targets_that_the_family_does_not_have_are_refused() -> None:
    data = from_tensors(torch.zeros(3, 2), torch.tensor([0.0, -1.5, 2.0]))
    with pytest.raises(DataError, match=r"family poisson are 0 or more, got -1.5 to 2"):
        fit(GLM(features=2, targets=1, family="poisson"), data, quiet=True)
    with pytest.raises(DataError, match=r"the targets must have the shape \(3, 1\), got \(3,\)"):
        GLM(features=2, targets=1).loss(Labeled(torch.zeros(3, 2), torch.zeros(3)))
    with pytest.raises(UsageError, match="family must be one of gaussian, bernoulli, poisson, gamma, inverse_gaussian"):
        GLM(features=2, targets=1, family="multinomial")  # type: ignore[arg-type]


@pytest.mark.parametrize("family", NEGATIVE)
def test_where_the_family_has_no_distribution_nothing_is_predicted(family: Family) -> None:
    zero = from_tensors(torch.zeros(3, 1), torch.tensor([0.0, 1.5, 2.0]))
    with pytest.raises(DataError, match=f"family {family} are above 0, got 0 to 2"):
        fit(GLM(features=1, targets=1, family=family), zero, quiet=True)
    model = GLM(features=1, targets=1, family=family)
    torch.nn.init.ones_(model.linear.weight)
    inside, edge = torch.full((1, 1), 0.9), torch.ones(1, 1)
    assert bool(model.predict(inside, how="mean").isfinite())
    for refused in (lambda: model.predict(edge, how="mean"), lambda: model.loss(Labeled(edge, edge))):
        with pytest.raises(DataError, match=f"family {family} has natural parameters below 0 only, got up to 0; stay"):
            refused()

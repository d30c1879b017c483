"""By its default recipe every convex model finds the optimum of scikit-learn or SciPy, however features are scaled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import expit
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression as LeastSquares
from sklearn.linear_model import LogisticRegression as Logistic
from sklearn.linear_model import PoissonRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import nn

import deepcanon as dc
from deepcanon.core import Labeled, Model
from deepcanon.methods.multitask import Multitask
from deepcanon.methods.regularized import Regularized
from deepcanon.models.linear._convex import StandardizedLinear
from deepcanon.models.linear.glm import GLM
from deepcanon.models.linear.linear_regression import LinearRegression
from deepcanon.models.linear.logistic_regression import LogisticRegression
from deepcanon.models.linear.softmax_regression import SoftmaxRegression
from deepcanon.models.linear.svm import SVM

Array = NDArray[np.float64]


def scaled() -> Array:
    """Correlated features with scales from 1e-3 to 1e4."""
    random = np.random.default_rng(0)
    z = random.normal(size=(300, 6)) @ (np.eye(6) + 0.3 * random.normal(size=(6, 6)))
    return np.asarray(z * [1e-3, 1e-2, 1.0, 10.0, 1e3, 1e4])


def offset() -> Array:
    """The same, far from the origin: up to 10,000 times as far as they vary."""
    x = scaled()
    return np.asarray(x + x.std(0) * [0, 1e2, -1e3, 1e3, 1e4, -30.0])


def constant() -> Array:
    """Years, a feature that never changes and one that is the difference of two others."""
    random = np.random.default_rng(0)
    year, other = 2000.0 + random.integers(0, 20, 300), random.integers(-100, 100, 300)
    return np.column_stack([year, np.full(300, 1e4), other, year - other])


TABLES: dict[str, Callable[[], Array]] = {
    "raw diabetes": lambda: load_diabetes(scaled=False).data,
    "scales": scaled,
    "offsets": offset,
    "constant and collinear": constant,
}


def single(values: Array) -> Array:
    """As a model gets them, in single precision."""
    return values.astype(np.float32).astype(np.float64)


def targets(family: str, x: Array) -> Array:
    """Drawn from the family, with means that are far from 1."""
    random = np.random.default_rng(1)
    z = StandardScaler().fit_transform(x)
    slope = z @ random.normal(size=x.shape[1]) / np.sqrt(x.shape[1])
    mean = 150 * np.exp(0.2 * slope)
    drawn: dict[str, Callable[[], Any]] = {
        "gaussian": lambda: 150 + 40 * (slope + random.normal(size=len(x))),
        "bernoulli": lambda: random.random(len(x)) < expit(slope),
        "poisson": lambda: random.poisson(200 * mean),
        "gamma": lambda: random.gamma(2, mean / 2),
        "inverse_gaussian": lambda: random.wald(mean, 3 * mean),
        "three classes": lambda: np.digitize(slope + random.normal(size=len(x)), [-0.5, 0.5]),
    }
    return single(np.asarray(drawn[family](), dtype=np.float64))


def trained(model: Model[Any], x: Array, y: NDArray[Any]) -> Model[Any]:
    """By the default recipe, in single precision; then in double precision, to be measured."""
    y = y.astype(np.int64) if "classes" in model.hparams else y
    labels = torch.from_numpy(y)
    dc.fit(
        model,
        dc.from_tensors(torch.from_numpy(x).float(), labels if y.dtype == np.int64 else labels.float()),
        quiet=True,
    )
    return model.double()


def outputs(model: Model[Any], x: Array) -> Array:
    """The outputs of the linear map."""
    with torch.no_grad():
        found: Array = model.get_submodule("linear")(torch.from_numpy(x)).numpy()
    return found


def best_of_scipy(family: str, x: Array, y: Array) -> Array:
    """The natural parameters at the maximum of the likelihood, by the densities of SciPy."""
    z = StandardScaler().fit_transform(x)
    rows = np.column_stack([z, np.ones(len(z))])
    gamma = family == "gamma"

    def mean(eta: Array) -> Array:
        inside = np.minimum(eta, -1e-12)
        return -1 / inside if gamma else (-2 * inside) ** -0.5

    def fun(guess: Array) -> float:
        eta = rows @ guess
        if eta.max() >= 0:
            return np.inf
        dispersed = stats.gamma.logpdf(y, a=1, scale=-1 / eta) if gamma else stats.invgauss.logpdf(y, mu=mean(eta))
        return -float(dispersed.mean())

    def jac(guess: Array) -> Array:
        return rows.T @ (mean(rows @ guess) - y) / len(y)

    def hess(guess: Array) -> Array:
        return rows.T @ (rows * mean(rows @ guess)[:, None] ** (2 if gamma else 3)) / len(y)

    start = np.zeros(rows.shape[1])
    start[-1] = -1 / y.mean() if gamma else -0.5 / y.mean() ** 2
    unit = -start[-1]  # so that the trust region has a radius of order 1
    found = optimize.minimize(
        lambda u: fun(u * unit), start / unit, jac=lambda u: jac(u * unit) * unit,
        hess=lambda u: hess(u * unit) * unit**2, method="trust-exact", options={"gtol": 1e-10},
    )  # fmt: skip
    eta: Array = rows @ found.x * unit
    return eta


def best_natural(family: str, x: Array, y: Array) -> Array:
    """The natural parameters at the optimum; without a penalty it does not depend on the scales of the features."""
    z = StandardScaler().fit_transform(x)
    if family == "gaussian":
        found: Array = LeastSquares().fit(z, y).predict(z)
        return found
    if family == "bernoulli":
        return np.asarray(Logistic(C=np.inf, tol=1e-12, max_iter=1000).fit(z, y).decision_function(z))
    if family == "poisson":
        return np.asarray(np.log(PoissonRegressor(alpha=0, tol=1e-10, max_iter=1000).fit(z, y).predict(z)))
    return best_of_scipy(family, x, y)


def nll(family: str, eta: Array, y: Array) -> float:
    """The mean negative log-likelihood by SciPy, of dispersion 1."""
    if family == "gaussian":
        return -float(stats.norm.logpdf(y, loc=eta).mean())
    if family == "bernoulli":
        return -float(stats.bernoulli.logpmf(y.astype(int), expit(eta)).mean())
    if family == "poisson":
        return -float(stats.poisson.logpmf(y, np.exp(eta)).mean())
    if family == "gamma":
        return -float(stats.expon.logpdf(y, scale=-1 / eta).mean())
    return -float(stats.invgauss.logpdf(y, mu=(-2 * eta) ** -0.5).mean())


def constant_eta(family: str, y: Array) -> Array:
    """The natural parameters of the best constant, the mean of the targets."""
    links: dict[str, Callable[[Array], Array]] = {
        "gaussian": lambda mean: mean,
        "bernoulli": lambda mean: np.log(mean / (1 - mean)),
        "poisson": np.log,
        "gamma": lambda mean: -1 / mean,
        "inverse_gaussian": lambda mean: -0.5 / mean**2,
    }
    return links[family](np.full(len(y), y.mean()))


MODELS: dict[str, tuple[str, Callable[[int], Model[Any]]]] = {
    "linear_regression": ("gaussian", lambda features: LinearRegression(features, targets=1)),
    "linear_regression by descent": ("gaussian", lambda features: LinearRegression(features, 1, solution="descent")),
    "logistic_regression": ("bernoulli", LogisticRegression),
    "glm gaussian": ("gaussian", lambda features: GLM(features, 1, family="gaussian")),
    "glm bernoulli": ("bernoulli", lambda features: GLM(features, 1, family="bernoulli")),
    "glm poisson": ("poisson", lambda features: GLM(features, 1, family="poisson")),
    "glm gamma": ("gamma", lambda features: GLM(features, 1, family="gamma")),
    "glm inverse_gaussian": ("inverse_gaussian", lambda features: GLM(features, 1, family="inverse_gaussian")),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", MODELS)
def test_the_default_recipe_finds_the_optimum_on_ill_scaled_data(name: str, table: str) -> None:
    """Of what the features explain, less than a ten-thousandth is missed."""
    family, build = MODELS[name]
    x = single(TABLES[table]())
    y = targets(family, x)
    eta = outputs(trained(build(x.shape[1]), x, y), x)[:, 0]
    best, null = (nll(family, each, y) for each in (best_natural(family, x, y), constant_eta(family, y)))
    assert best < null
    assert (nll(family, eta, y) - best) / (null - best) < 1e-4


@pytest.mark.parametrize("table", TABLES)
def test_softmax_regression_finds_scikit_learns_optimum_on_ill_scaled_data(table: str) -> None:
    x = single(TABLES[table]())
    y = targets("three classes", x).astype(np.int64)
    z = StandardScaler().fit_transform(x)
    oracle = Logistic(C=np.inf, tol=1e-10, max_iter=10_000).fit(z, y).predict_proba(z)
    shares = np.bincount(y) / len(y)
    best, null = (-float(np.log(p[np.arange(len(y)), y]).mean()) for p in (oracle, np.tile(shares, (len(y), 1))))
    model = trained(SoftmaxRegression(x.shape[1], classes=3), x, y)
    reached = model.loss(Labeled(torch.from_numpy(x), torch.from_numpy(y)))["nll"].item()
    assert (reached - best) / (null - best) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("table", ["raw diabetes", "offsets"])
@pytest.mark.parametrize("classes", [2, 3])
def test_without_a_penalty_the_svm_finds_the_optimum_of_scipys_linear_program(classes: int, table: str) -> None:
    """Minimize the mean of slacks, each at least 0 and at least 1 + s_k - s_y for every other class k."""
    x = single(TABLES[table]())
    y = targets("three classes", x).astype(np.int64) % classes
    rows, count = np.column_stack([StandardScaler().fit_transform(x), np.ones(len(x))]), len(x)
    width = rows.shape[1]
    blocks = []
    for k in range(1, classes):
        other, block = (y + k) % classes, np.zeros((count, classes * width + count))
        for row in range(count):
            block[row, other[row] * width : (other[row] + 1) * width] += rows[row]
            block[row, y[row] * width : (y[row] + 1) * width] -= rows[row]
            block[row, classes * width + row] = -1
        blocks.append(block)
    cost = np.concatenate([np.zeros(classes * width), np.full(count, 1 / count)])
    bounds = [(None, None)] * (classes * width) + [(0, None)] * count
    best = optimize.linprog(cost, A_ub=np.concatenate(blocks), b_ub=-np.ones((classes - 1) * count), bounds=bounds)
    model = trained(SVM(x.shape[1], classes, decay=0.0), x, y)
    reached = model.loss(Labeled(torch.from_numpy(x), torch.from_numpy(y)))["hinge"].item()
    assert best.fun < reached + 1e-9
    assert reached == pytest.approx(best.fun, rel=1e-3)


@pytest.mark.slow
def test_with_its_penalty_the_svm_finds_an_optimum_as_good_as_scikit_learns() -> None:
    x = single(TABLES["raw diabetes"]()[:150])
    y = targets("bernoulli", x).astype(np.int64)
    batch = Labeled(torch.from_numpy(x), torch.from_numpy(y))
    model = trained(SVM(x.shape[1], 2), x, y)
    oracle = SVC(kernel="linear", C=1 / (1e-3 * len(y)), tol=1e-3).fit(x, y)
    reached = sum(value.item() for value in model.loss(batch).values())
    with torch.no_grad():
        model.get_parameter("linear.weight").copy_(torch.tensor(oracle.coef_))
        model.get_parameter("linear.bias").copy_(torch.tensor(oracle.intercept_))
    assert reached <= (1 + 1e-4) * sum(value.item() for value in model.loss(batch).values())


def test_a_penalty_is_one_of_the_weights_of_the_features_as_they_are() -> None:
    """Ridge-penalized logistic regression: scikit-learn's optimum, by Newton steps, on features of many scales."""
    x = single(scaled())
    y = targets("bernoulli", x).astype(np.int64)
    model: Regularized[Any] = Regularized(LogisticRegression(x.shape[1]), l2=(1e-3,))
    trained_model = trained(model, x, y)
    oracle = Logistic(C=1 / (1e-3 * len(y)), solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(x, y)
    batch = Labeled(torch.from_numpy(x), torch.from_numpy(y))
    reached = sum(value.item() for value in trained_model.loss(batch).values())
    weight, bias = (trained_model.get_parameter(f"model.linear.{name}") for name in ("weight", "bias"))
    found = weight[0].detach().numpy().copy()
    with torch.no_grad():
        weight.copy_(torch.tensor(oracle.coef_))
        bias.copy_(torch.tensor(oracle.intercept_))
    best = sum(value.item() for value in trained_model.loss(batch).values())
    assert reached == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(found * x.std(0), oracle.coef_[0] * x.std(0), rtol=0, atol=1e-3)


def test_to_measure_the_features_changes_no_output() -> None:
    layer = StandardizedLinear(6, 2).double()
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    x = torch.from_numpy(scaled())
    before = layer(x)
    torch.testing.assert_close(before, nn.functional.linear(x, layer.weight, layer.bias))
    layer.measure(lambda: x.split(70))
    np.testing.assert_allclose(layer.mean, x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(layer.scale, x.numpy().std(0), rtol=1e-12)
    torch.testing.assert_close(layer(x), before)
    values = [layer.weight, layer.bias]
    weight, bias = layer.coordinates_of(values)
    torch.testing.assert_close(((x - layer.mean) / layer.scale) @ weight.T + bias, before)
    for back, value in zip(layer.values_at([weight, bias]), values, strict=True):
        torch.testing.assert_close(back, value)


def test_the_gradient_in_the_coordinates_is_that_of_autograd() -> None:
    layer = StandardizedLinear(6, 2).double()
    x = torch.from_numpy(offset())
    layer.measure(lambda: [x])
    coordinates = [torch.randn(2, 6, dtype=torch.float64), torch.randn(2, dtype=torch.float64)]
    leaves = [each.requires_grad_() for each in coordinates]
    values = layer.values_at(leaves)
    down = [torch.randn_like(value) for value in values]
    wanted = torch.autograd.grad(values, leaves, down)
    for ours, theirs in zip(layer.gradient_of(down), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_a_method_may_wrap_them() -> None:
    """Hooks of the layer are called, and parameters that a method adds are trained beside its coordinates."""
    x = single(scaled())
    model = Multitask(SoftmaxRegression(6, classes=3), features=6)
    dc.fit(
        model,
        dc.from_tensors(torch.from_numpy(x).float(), targets("three classes", x).astype(int)),
        quiet=True,
        epochs=2,
    )
    assert all(bool(parameter.any()) for parameter in model.parameters())

"""The estimators keep scikit-learn's own rules, and work in its pipelines, searches and validations."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_iris, make_circles
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from deepcanon.core import UsageError
from deepcanon.estimators import Classifier, Density, Encoder, Estimator, Regressor
from deepcanon.models.linear.softmax_regression import SoftmaxRegression

CHECKED = {
    "classifier": Classifier(arguments={"hidden": (16,)}, epochs=20, lr=2e-2),
    "classifier of a linear model": Classifier("softmax_regression", epochs=10, lr=1e-1),
    "regressor": Regressor("linear_regression", epochs=1),
    "density": Density(arguments={"components": 2}, epochs=2),
    "encoder": Encoder(arguments={"latent": 2, "hidden": (8,)}, epochs=1),
}
NEEDS_ARRAY_API = "check_array_api_input"
"""Skipped by scikit-learn itself unless SciPy was started with its array API."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "linear" in name else ()) for name in CHECKED]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_own_checks_pass(name: str) -> None:
    checks = 0
    for estimator, check in estimator_checks_generator(CHECKED[name]):
        if check.func.__name__ != NEEDS_ARRAY_API:
            check(estimator)
            checks += 1
    assert checks >= 40


def patients() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y = load_diabetes(return_X_y=True)
    return x / x.std(0), y


def test_a_linear_regressor_is_scikit_learns() -> None:
    x, y = patients()
    ours, theirs = Regressor("linear_regression").fit(x, y), LinearRegression().fit(x, y)
    np.testing.assert_allclose(ours.predict(x), theirs.predict(x), rtol=1e-10)
    assert ours.score(x, y) == pytest.approx(theirs.score(x, y), abs=1e-12)
    both = np.column_stack([y, 2 * y])
    np.testing.assert_allclose(Regressor("linear_regression").fit(x, both).predict(x)[:, 1], 2 * theirs.predict(x))


def test_a_logistic_classifier_is_scikit_learns() -> None:
    x, y = load_iris(return_X_y=True)
    x, y = x[50:], np.array(["one", "other"])[y[50:] - 1]
    ours = Classifier("logistic_regression", random_state=0).fit(x, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10000).fit(x, y)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-4)
    assert ours.classes_.tolist() == ["one", "other"]
    assert (ours.predict(x) == theirs.predict(x)).all()


def test_a_density_is_scikit_learns_and_draws_from_itself() -> None:
    x = patients()[0][:, :3]
    ours = Density("gaussian").fit(x)
    theirs = GaussianMixture(1, reg_covar=1e-6).fit(x)
    np.testing.assert_allclose(ours.score_samples(x), theirs.score_samples(x), rtol=1e-6)
    assert ours.score(x) == pytest.approx(theirs.score(x), rel=1e-6)
    drawn = ours.sample(4000, random_state=0)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(x.T), atol=0.15)
    assert (ours.sample(5, random_state=1) == ours.sample(5, random_state=1)).all()
    assert (ours.sample(5, random_state=1) != ours.sample(5, random_state=2)).all()


def test_codes_span_the_plane_of_principal_components() -> None:
    x = patients()[0]
    ours = Encoder("ppca", {"latent": 2}).fit(x)
    codes, parts = ours.transform(x), PCA(2).fit_transform(x)
    rest = parts - codes @ np.linalg.lstsq(codes, parts)[0]
    assert np.abs(rest).max() < 1e-6
    assert ours.get_feature_names_out().tolist() == ["encoder0", "encoder1"]


def test_a_search_goes_through_arguments_of_the_model_and_settings_of_the_training() -> None:
    x, y = load_iris(return_X_y=True)
    grid = {"classifier__arguments__hidden": [(4,), (16,)], "classifier__lr": [1e-9, 5e-2]}
    pipeline = make_pipeline(StandardScaler(), Classifier(arguments={"dropout": 0.0}, epochs=30, random_state=0))
    search = GridSearchCV(pipeline, grid, cv=2).fit(x, y)
    assert search.best_params_["classifier__lr"] == 5e-2
    best = search.best_estimator_[-1]
    assert best.arguments == {"dropout": 0.0, "hidden": search.best_params_["classifier__arguments__hidden"]}
    assert best.model_.hparams["hidden"] == best.arguments["hidden"]
    assert search.best_score_ > 0.9


def test_a_circle_needs_engineered_features() -> None:
    """A linear classifier fails on one class around the other, and succeeds once it is given the squares."""
    x, y = make_circles(200, factor=0.4, noise=0.05, random_state=0)
    plain = Classifier("logistic_regression", random_state=0).fit(x, y)
    assert plain.score(x, y) < 0.7
    squares = make_pipeline(
        PolynomialFeatures(2, include_bias=False), Classifier("logistic_regression", random_state=0)
    )
    assert squares.fit(x, y).score(x, y) == 1


def test_it_can_be_validated_across_and_behind_an_encoder() -> None:
    x, y = load_iris(return_X_y=True)
    x, y = x[y > 0], y[y > 0]  # a line separates the first class from the others, so that it has no finite optimum
    last = Classifier(SoftmaxRegression, random_state=0)
    ours = make_pipeline(StandardScaler(), Encoder("ppca", {"latent": 2}), last)
    theirs = make_pipeline(StandardScaler(), PCA(2), LogisticRegression(C=np.inf))
    expected = cross_val_score(theirs, x, y, cv=3)
    np.testing.assert_allclose(cross_val_score(ours, x, y, cv=3), expected, atol=0.03)


def test_clones_have_the_parameters_and_nothing_learned() -> None:
    x, y = load_iris(return_X_y=True)
    first = Classifier(SoftmaxRegression, epochs=1, random_state=3).fit(x, y)
    second = clone(first)
    assert second.get_params() == first.get_params()
    assert not hasattr(second, "model_")
    np.testing.assert_array_equal(second.fit(x, y).predict_proba(x), first.predict_proba(x))


def test_numbers_are_double_unless_said_otherwise_and_the_global_generator_rests() -> None:
    x, y = load_iris(return_X_y=True)
    before = torch.get_rng_state()
    for dtype in ("float64", "float32"):
        model = Classifier(epochs=1, dtype=dtype).fit(x, y)
        assert model.predict_proba(x).dtype == dtype
        assert {str(p.dtype) for p in model.model_.parameters()} == {f"torch.{dtype}"}
    assert torch.equal(torch.get_rng_state(), before)


def test_rows_become_images_for_models_of_images() -> None:
    x, y = load_digits(return_X_y=True)
    model = Classifier("cnn", shape=(1, 8, 8), steps=20, random_state=0).fit(x[:600] / 16, y[:600])
    assert model.score(x[600:900] / 16, y[600:900]) > 0.3
    with pytest.raises(UsageError, match=r"examples of shape \(1, 4, 4\) have 16 values, got 64"):
        Classifier("cnn", shape=(1, 4, 4)).fit(x, y)


METHODS = [
    *("bagging", "curriculum", "adversarial_training", "mc_dropout", "multitask"),
    *("noise_injection", "regularized", "pruning", "transfer"),
]


@pytest.mark.parametrize("method", METHODS)
def test_any_method_around_a_model_is_an_estimator(method: str) -> None:
    x, y = load_iris(return_X_y=True)
    inner = {"model": "mlp", "arguments": {"hidden": (16,)}}
    model = Classifier(method, {"model": inner}, steps=60, lr=0.02, random_state=0).fit(x, y)
    assert type(model.model_).name() == method
    assert model.score(x, y) > 0.8


def test_a_method_has_the_methods_of_the_model_that_it_wraps() -> None:
    x = patients()[0][:, :3]
    density = Density("regularized", {"model": "realnvp"}, steps=2, random_state=0).fit(x)
    assert density.sample(4, random_state=0).shape == (4, 3)
    assert np.isfinite(density.score(x))
    with pytest.raises(UsageError, match="n_samples must be at least 1"):
        density.sample(0)
    assert Encoder("regularized", {"model": "autoencoder"}, steps=2, random_state=0).fit_transform(x).shape == (442, 8)


@pytest.mark.parametrize(
    ("estimator", "sentence"),
    [
        (Classifier("vae"), "Classifier needs a model that can predict; vae has sample, log_prob"),
        (Encoder("gaussian"), "Encoder needs a model that can encode; gaussian has sample, log_prob"),
        (Classifier("mpl"), "there is no model 'mpl'; did you mean mlp?"),
        (Classifier(3), "model is the name of a model or its class, got 3"),
        (Classifier(arguments={"width": 3}), "mlp takes no argument width; it takes features, classes"),
        (Classifier("logistic_regression"), "logistic_regression is a binary classifier (got 3 classes)"),
        (Classifier(arguments={"features": 7}), "features is 4 in X, but 7 was given"),
        (Classifier(arguments=[7]), "the arguments of mlp are a mapping of names to values, got [7]"),
        (Classifier(dtype="float16"), "dtype must be one of float64, float32 (got 'float16')"),
        (
            Classifier("noise_injection", {"model": "vae"}),
            "Classifier needs a model that can predict; noise_injection has sample, log_prob",
        ),
        (Classifier("noise_injection", {"model": 3}), "model is the name of a model or its class, got 3"),
    ],
    ids=lambda value: "" if isinstance(value, Estimator) else value,
)
def test_mistakes_are_told_in_one_sentence(estimator: Any, sentence: str) -> None:
    x, y = load_iris(return_X_y=True)
    with pytest.raises(UsageError) as caught:
        estimator.fit(x, y)
    assert str(caught.value).startswith(sentence)


def test_every_parameter_is_described() -> None:
    text = inspect.cleandoc(Estimator.__doc__ or "")
    assert [name for name in Estimator().get_params() if f"    {name}: " not in text] == []

"""Baselines of scikit-learn: its own numbers on the same split, in the form of a model's predictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression as Logistic
from sklearn.linear_model import Ridge as LinearRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

import deepcanon as dc
from deepcanon.comparison.baselines import scikit_learn
from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.comparison.baselines.scikit_learn import (
    GradientBoosting,
    LogisticRegression,
    Neighbors,
    RandomForest,
    Ridge,
)
from deepcanon.core import UsageError
from deepcanon.data import Dataset
from deepcanon.train.scores import gather


def split(x: Any, y: Any) -> Dataset[Any]:
    order = np.random.default_rng(0).permutation(len(x))
    train, valid, test = order[:90], order[90:120], order[120:170]
    return dc.data.of(x[train], y[train], valid=(x[valid], y[valid]), test=(x[test], y[test]))


@pytest.fixture(scope="module")
def wine() -> Any:
    return split(*load_wine(return_X_y=True))


@pytest.fixture(scope="module")
def diabetes() -> Any:
    return split(*load_diabetes(return_X_y=True))


def parts(data: Dataset[Any], name: str) -> tuple[Any, Any]:
    part = data.split(name)
    return part.x.double().numpy(), part.y.numpy().reshape(-1)


@pytest.mark.slow
def test_the_numbers_are_those_of_scikit_learn(wine: Any, diabetes: Any) -> None:
    (x, y), (held, targets), (rows, _) = (parts(wine, name) for name in ("train", "valid", "test"))
    boosted = HistGradientBoostingClassifier(max_iter=500, early_stopping=True, n_iter_no_change=20, random_state=3)
    boosted.fit(x, y, X_val=held, y_val=targets)
    found = gather(GradientBoosting.fit(wine, 3), wine.split("test"))
    assert found is not None
    assert np.allclose(found.mean, boosted.predict_proba(rows), atol=1e-12)
    logistic = make_pipeline(StandardScaler(), Logistic(max_iter=1000)).fit(x, y)
    assert np.allclose(LogisticRegression.fit(wine, 0).predict(wine.test.x, how="mean"), logistic.predict_proba(rows))
    (x, y), (rows, _) = (parts(diabetes, name) for name in ("train", "test"))
    ridge = make_pipeline(StandardScaler(), LinearRidge()).fit(x, y)
    assert np.allclose(Ridge.fit(diabetes, 0).predict(diabetes.test.x)[:, 0], ridge.predict(rows))
    forest = RandomForestRegressor(300, max_features=1 / 3, random_state=5).fit(x, y)
    assert np.allclose(RandomForest.fit(diabetes, 5).predict(diabetes.test.x)[:, 0], forest.predict(rows))


@pytest.mark.parametrize("method", [GradientBoosting, RandomForest, Neighbors, LogisticRegression])
def test_probabilities_are_those_of_all_classes_and_never_zero(
    method: type[BaselineMethod], wine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A class without a training example has a column, too."""
    monkeypatch.setattr(scikit_learn, "TREES", 20)
    train = wine.train.part((wine.train.y != 1).nonzero().squeeze(1))
    few = dc.data.of(train.x, train.y, valid=(wine.valid.x, wine.valid.y), test=(wine.test.x, wine.test.y))
    fitted: Any = method.fit(few, 0)
    shares = fitted.predict(wine.test.x, how="mean")
    assert shares.shape == (len(wine.test), 3)
    assert torch.allclose(shares.sum(1), torch.ones(len(shares), dtype=torch.float64))
    assert torch.equal(fitted.predict(wine.test.x), shares.argmax(1))
    assert float(shares[:, 1].max()) <= 1 / 4  # which no example voted for
    if method in (RandomForest, Neighbors):  # whose votes are counted once more
        assert bool((shares > 0).all())
    with pytest.raises(UsageError, match="draws nothing"):
        fitted.predict(wine.test.x, how="sample")


def test_what_is_random_comes_from_the_seed(diabetes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scikit_learn, "TREES", 10)
    one, again, other = (RandomForest.fit(diabetes, seed).predict(diabetes.test.x) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_the_number_of_neighbors_is_the_best_on_validation_data(diabetes: Any) -> None:
    chosen = Neighbors.fit(diabetes, 0)
    errors = {}
    for count in (1, 3, 5, 10, 20, 50):
        other = Neighbors(type(chosen.fitted)(count).fit(*parts(diabetes, "train")), None, count)
        errors[count] = float((other.predict(diabetes.valid.x) - diabetes.valid.y).square().mean())
    assert chosen.votes == min(errors, key=errors.__getitem__)
    assert chosen.choice == f"{chosen.votes} neighbors"


def test_many_rows_are_sampled_by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scikit_learn, "MOST", 40)
    y = np.repeat([0, 1], [300, 100])
    few = Neighbors.fit(dc.data.of(np.random.default_rng(0).normal(size=(400, 2)), y), 0)
    assert np.bincount(few.fitted._y).tolist() == [30, 10]


def test_it_takes_as_many_threads_as_torch(diabetes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def fitting(cls: type[Ridge], data: Dataset[Any], seed: int) -> Iterator[Ridge]:
        seen.append({each["num_threads"] for each in threadpool_info()})
        yield from real(data, seed)

    real = Ridge._fitting
    monkeypatch.setattr(Ridge, "_fitting", classmethod(fitting))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    Ridge.fit(diabetes, 0)
    assert seen == [{1}]


@pytest.mark.slow
@pytest.mark.parametrize("method", [GradientBoosting, RandomForest, Neighbors])
def test_a_budget_ends_a_fit_after_a_part_and_it_is_known(method: type[BaselineMethod], diabetes: Any) -> None:
    short, whole = (method.fit(diabetes, 0, budget) for budget in (1e-9, None))
    assert short.progress[0] < short.progress[1] == method.fit(diabetes, 0, 1e-9).progress[1]
    assert whole.progress[0] == whole.progress[1]
    predicted = short.predict(diabetes.test.x)  # type: ignore[attr-defined]
    assert bool(predicted.isfinite().all())
    if method is RandomForest:
        forest = RandomForestRegressor(25, max_features=1 / 3, random_state=0).fit(*parts(diabetes, "train"))
        assert np.allclose(predicted[:, 0], forest.predict(parts(diabetes, "test")[0]))


def test_they_suit_tables_and_points_with_labels_and_images_pixel_by_pixel(wine: Any, diabetes: Any) -> None:
    suiting = [
        [method.name for method in (GradientBoosting, LogisticRegression, Ridge) if method.suits(data)]
        for data in (wine, diabetes, dc.load_data("moons"), dc.load_data("digits"), dc.data.of(wine.train.x))
    ]
    assert suiting == [
        ["gradient_boosting", "logistic"], ["gradient_boosting", "ridge"], ["gradient_boosting", "logistic"],
        ["logistic"], [],
    ]  # fmt: skip


def test_images_are_rows_of_pixels_and_of_many_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scikit_learn, "MOST_PIXELS", 64 * 300)
    monkeypatch.setattr(scikit_learn, "FEWEST_IMAGES", 10)
    digits: Any = dc.load_data("digits")
    fitted = Neighbors.fit(digits, 0)
    assert len(fitted.fitted._y) == 300
    assert float((fitted.predict(digits.test.x) == digits.test.y).double().mean()) > 0.9
    theirs = fitted.fitted.predict(digits.test.x.flatten(1).double().numpy())
    assert float(np.mean(fitted.predict(digits.test.x).numpy() == theirs)) > 0.99

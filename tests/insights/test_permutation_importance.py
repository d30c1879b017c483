"""Permutation importance against scikit-learn on the same permutations, and against closed forms."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.inspection import permutation_importance as of_sklearn
from torch import Tensor, nn

from deepcanon.core import Batch, Labeled, UsageError
from deepcanon.core.table_units import ColumnUnits, TableUnits, Value
from deepcanon.insights._engines.table_rows import rows_of
from deepcanon.insights.permutation_importance import importances, permutation_importance
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.linear.svm import SVM
from deepcanon.pictures.legibility import faults

Array = NDArray[np.float64]


def undecoded(features: Tensor) -> list[Value]:
    return [0.0] * len(features)


TABLE = TableUnits(
    (
        ColumnUnits("age", 2, undecoded),  # with the feature that says where it is missing
        ColumnUnits("city", 3, undecoded),
        ColumnUnits("income", 1, undecoded),
    ),
    classes=("ill", "well"),
    target="outcome",
)


def people(count: int = 60) -> Array:
    """A table of three columns as the user has it: age, sometimes missing, the code of a city, income."""
    generator = np.random.default_rng(0)
    age = np.where(generator.random(count) < 0.2, np.nan, generator.normal(size=count))
    return np.column_stack([age, generator.integers(3, size=count), generator.normal(size=count)])


def encoded(people: Array) -> Tensor:
    missing = np.isnan(people[:, 0])
    cities = np.eye(3)[people[:, 1].astype(int)]
    return torch.from_numpy(np.column_stack([np.where(missing, 0.1, people[:, 0]), missing, cities, people[:, 2]]))


def orders_of_sklearn(count: int, repeats: int, seed: int) -> Tensor:
    """The permutations that scikit-learn draws: of each column the same, one on top of the other."""
    state = np.random.RandomState(np.random.RandomState(seed).randint(np.iinfo(np.int32).max + 1))
    order, shuffling, found = np.arange(count), np.arange(count), []
    for _ in range(repeats):
        state.shuffle(shuffling)
        order = order[shuffling]
        found.append(torch.from_numpy(order.copy()))
    return torch.stack(found)


class OurClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model of the encoded columns as an estimator of the user's."""

    classes_ = np.array([0, 1])
    model: Any

    def fit(self, *_: Any) -> None: ...

    def predict_proba(self, x: Array) -> Any:
        return self.model.predict(encoded(x), how="mean").numpy()

    def predict(self, x: Array) -> Any:
        return self.predict_proba(x).argmax(1)


class OurRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    model: Any

    def fit(self, *_: Any) -> None: ...

    def predict(self, x: Array) -> Any:
        return 50.0 + 7.0 * self.model.predict(encoded(x))[:, 0].numpy()


@pytest.mark.parametrize("kind", ["classes", "targets"])
def test_it_is_scikit_learns_by_column_of_the_users_table(kind: str) -> None:
    torch.manual_seed(0)
    x, repeats = people(), 5
    if kind == "classes":
        y, table = torch.from_numpy((x[:, 2] + (x[:, 1] == 2) > 0).astype(int)), TABLE
        model = MLP(features=6, classes=2, hidden=(8,)).double()
        estimator, truth, batch = OurClassifier(), y.numpy(), Labeled(encoded(x), y)
        scorers = {"nll": "neg_log_loss", "accuracy": "accuracy"}
    else:
        target = torch.from_numpy(x[:, 2:] - x[:, 1:2])
        table = TableUnits(TABLE.columns, target="cost", offset=50.0, scale=7.0)
        model = MLP(features=6, targets=1, hidden=(8,)).double()
        estimator, batch = OurRegressor(), Labeled(encoded(x), target)
        truth = 50.0 + 7.0 * target[:, 0].numpy()
        scorers = {"rmse": "neg_root_mean_squared_error", "r2": "r2"}
    estimator.model = model
    found = importances(rows_of(model, batch, table), orders_of_sklearn(len(x), repeats, seed=3))
    by_name = {column["name"]: column for column in found["columns"]}
    for measure, scorer in scorers.items():
        wanted = of_sklearn(estimator, x, truth, scoring=scorer, n_repeats=repeats, random_state=3)
        for place, name in enumerate(table.names):
            assert by_name[name][measure]["each"] == pytest.approx(wanted.importances[place], abs=1e-10)
            assert by_name[name][measure]["mean"] == pytest.approx(wanted.importances_mean[place], abs=1e-10)
            assert by_name[name][measure]["std"] == pytest.approx(wanted.importances_std[place], abs=1e-10)
    first = [column[next(iter(scorers))]["mean"] for column in found["columns"]]
    assert first == sorted(first, reverse=True)


def test_of_a_linear_model_it_is_twice_the_variance_times_the_squared_coefficient() -> None:
    x = torch.tensor([[1.0, 4.0], [2.0, -1.0], [0.5, 0.0], [-3.0, 2.5], [1.5, 1.0]], dtype=torch.float64)
    design = torch.column_stack([x, torch.ones(5, dtype=torch.float64)])
    y = torch.tensor([[2.0], [1.0], [0.0], [5.0], [-1.0]], dtype=torch.float64)
    coefficients = torch.linalg.lstsq(design, y).solution
    model = nn.Linear(2, 1).double()
    with torch.no_grad():
        model.weight.copy_(coefficients[:2].T)
        model.bias.copy_(coefficients[2])
    everyone = torch.tensor(list(itertools.permutations(range(5))))
    found = importances(rows_of(model, Labeled(x, y), TableUnits.plain(2)), everyone)
    for column in found["columns"]:
        place = int(column["name"][1:]) - 1
        wanted = 2 * coefficients[place, 0] ** 2 * x[:, place].var(correction=0)
        intact = found["measures"][0]["intact"]
        shuffled = torch.tensor(column["rmse"]["each"], dtype=torch.float64) + intact
        assert float((shuffled.square() - intact**2).mean()) == pytest.approx(float(wanted), rel=1e-12)


@pytest.mark.slow
def test_its_standard_error_is_its_scatter_over_other_rows() -> None:
    """An oracle by simulation: tables drawn anew, the same linear model."""
    model, generator = nn.Linear(2, 1).double(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 0.5]]))
        model.bias.zero_()
    found: dict[str, list[tuple[float, float]]] = {"rmse": [], "behind": []}
    for _ in range(200):
        x = torch.randn(100, 2, generator=generator, dtype=torch.float64)
        y = model(x).detach() + 0.5 * torch.randn(100, 1, generator=generator, dtype=torch.float64)
        orders = torch.stack([torch.randperm(100, generator=generator) for _ in range(4)])
        numbers = importances(rows_of(model, Labeled(x, y), TableUnits.plain(2)), orders)
        top, second = numbers["columns"]
        assert top["name"] == "x1"
        found["rmse"].append((top["rmse"]["mean"], top["rmse"]["error"]))
        found["behind"].append((second["behind"], second["behind_error"]))
    for each in found.values():
        means, errors = torch.tensor(each).T
        assert float(means.std()) == pytest.approx(float(errors.mean()), rel=0.1)


def test_the_headline_is_what_the_numbers_can_tell() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 3, generator=generator)
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.bias.zero_()
        model.weight.copy_(torch.tensor([[0.0, 0.0, 0.0], [4.0, 1.0, 0.0]]))
    y = model(x).argmax(1)
    found = permutation_importance(model, Labeled(x, y), TableUnits.plain(3, ("ill", "well")))
    assert [column["name"] for column in found.numbers["columns"]] == ["x1", "x2", "x3"]
    assert found.says[0].startswith(
        "The predictions of the class rest most on x1: shuffled, the log loss rises from 0."
    )
    assert "the accuracy falls from 100.0 % to " in found.says[0]
    assert found.says[1] == "Of 3 columns, these make no difference that 200 rows can show: x3."
    assert faults(found.figure) == []
    again = permutation_importance(model, Labeled(x, y), TableUnits.plain(3, ("ill", "well")))
    assert again.numbers == found.numbers
    with torch.no_grad():
        model.weight[1, 1] = 4.0
    tied = permutation_importance(model, Labeled(x, model(x).argmax(1)), TableUnits.plain(3))
    assert "rest most on x1 and x2, which cannot be told apart" in tied.says[0].replace("x2 and x1", "x1 and x2")
    guess = permutation_importance(model, Labeled(x, 1 - y), TableUnits.plain(3))
    assert guess.says[0] == "No column of the table makes a difference that 200 rows can show."
    assert "no better than a prediction without any column" in guess.says[-1]


def test_columns_that_are_correlated_are_named() -> None:
    x = torch.randn(100, 1, generator=torch.Generator().manual_seed(0)).repeat(1, 2)
    model = nn.Linear(2, 1)
    found = permutation_importance(model, Labeled(x, model(x).detach()), TableUnits.plain(2))
    assert "x1 and x2 have a correlation of 1.00: with one of them shuffled" in found.says[-1]


def test_a_classifier_without_probabilities_has_its_accuracy() -> None:
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    found = permutation_importance(SVM(features=2, classes=2), Labeled(x, (x[:, 0] > 0).long()), TableUnits.plain(2))
    assert [measure["name"] for measure in found.numbers["measures"]] == ["accuracy"]


@pytest.mark.slow
def test_many_columns_are_cut_and_long_names_too() -> None:
    x = torch.randn(30, 25, generator=torch.Generator().manual_seed(0))
    columns = tuple(ColumnUnits(f"a long name of column {i}", 1, undecoded) for i in range(25))
    model = nn.Linear(25, 1)
    found = permutation_importance(model, Labeled(x, model(x).detach()), TableUnits(columns), repeats=1)
    assert len(found.numbers["columns"]) == 25
    assert len(found.figure.axes[0].get_yticks()) == 20
    assert faults(found.figure) == []


def test_what_cannot_be_measured_is_refused() -> None:
    model, table = nn.Linear(2, 1), TableUnits.plain(2)
    with pytest.raises(UsageError, match="rows with their target"):
        permutation_importance(model, Batch(torch.zeros(3, 2)), table)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at least 2 rows"):
        permutation_importance(model, Labeled(torch.zeros(1, 2), torch.zeros(1, 1)), table)
    with pytest.raises(UsageError, match="repeats must be at least 1"):
        permutation_importance(model, Labeled(torch.zeros(3, 2), torch.zeros(3, 1)), table, repeats=0)

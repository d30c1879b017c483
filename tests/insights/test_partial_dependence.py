"""Partial dependence against scikit-learn's brute force, and models whose curves are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.inspection import partial_dependence as of_sklearn
from torch import Tensor, nn

from deepcanon.core import Batch, UsageError
from deepcanon.core.table_units import ColumnUnits, TableUnits, Value
from deepcanon.insights._engines.table_rows import rows_of
from deepcanon.insights.partial_dependence import dependence, partial_dependence, some_values
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.pictures.legibility import faults

CITIES = ("Bonn", "Köln", "Ulm")


def age(features: Tensor) -> list[Value]:
    """Standardized with mean 40 and standard deviation 10, next to whether it is missing."""
    return ["" if missing else 40.0 + 10.0 * value for value, missing in features.tolist()]


def city(features: Tensor) -> list[Value]:
    return [CITIES[code] for code in features.argmax(1).tolist()]


TABLE = TableUnits(
    (ColumnUnits("age", 2, age), ColumnUnits("city", 3, city)), classes=("ill", "well"), target="outcome"
)


def rows(count: int = 50) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    ages = torch.randn(count, 1, generator=generator, dtype=torch.float64)
    missing = (torch.rand(count, 1, generator=generator) < 0.2).double()
    cities = torch.eye(3).double()[torch.randint(3, (count,), generator=generator)]
    return torch.cat([ages * (1 - missing), missing, cities], dim=1)


class OurRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    model: Any

    def fit(self, *_: Any) -> None: ...

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, x: NDArray[np.float64]) -> Any:
        return self.model.predict(torch.from_numpy(x))[:, 0].numpy()


class OurClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    classes_ = np.array([0, 1, 2])
    model: Any

    def fit(self, *_: Any) -> None: ...

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, x: NDArray[np.float64]) -> Any:
        return self.model.predict(torch.from_numpy(x), how="mean").numpy()


def test_it_is_scikit_learns_for_targets_with_the_curve_of_each_row() -> None:
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[:, 2] = x[:, 2].round()  # few values, all of which are taken
    model, estimator = MLP(features=3, targets=1, hidden=(6,)).double(), OurRegressor()
    estimator.model = model
    seen = rows_of(model, Batch(x), TableUnits.plain(3))
    for place in range(3):
        found = dependence(seen, place, grid=12, lines=40, output=0)
        values = {"custom_values": {place: np.array(found["values"])}} if place < 2 else {}
        wanted = of_sklearn(estimator, x.numpy(), [place], method="brute", kind="both", **values)
        assert found["values"] == pytest.approx(wanted["grid_values"][0])
        assert [mean[0] for mean in found["mean"]] == pytest.approx(wanted["average"][0], abs=1e-12)
        np.testing.assert_allclose(found["lines"], wanted["individual"][0], atol=1e-12)


def test_it_is_scikit_learns_for_the_probability_of_every_class() -> None:
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).round()
    model, estimator = MLP(features=2, classes=3, hidden=(6,)).double(), OurClassifier()
    estimator.model = model
    found = dependence(rows_of(model, Batch(x), TableUnits.plain(2)), 1, grid=12, lines=0, output=None)
    wanted = of_sklearn(estimator, x.numpy(), [1], method="brute", response_method="predict_proba")
    np.testing.assert_allclose(np.array(found["mean"]).T, wanted["average"], atol=1e-12)
    assert found["lines"] == []


def test_values_are_those_of_rows_at_even_ranks() -> None:
    column = TableUnits.plain(1).columns[0]
    x = torch.arange(101.0).flip(0).square().unsqueeze(1)
    values, encoded, shares = some_values(column, x, grid=10)
    assert values == [float(round(rank) ** 2) for rank in np.linspace(5, 95, 10)]
    assert encoded[:, 0].tolist() == values
    assert shares == pytest.approx([1 / 101] * 10)
    dates = ColumnUnits("day", 1, lambda part: [f"2024-01-{int(value):02}" for value in part[:, 0]])
    even, _, _ = some_values(dates, torch.arange(1.0, 31.0).unsqueeze(1), grid=3)
    assert (even[0], even[-1], len(even)) == ("2024-01-02", "2024-01-29", 12)
    skewed = torch.cat([torch.arange(1.0, 31.0), torch.arange(5.0, 17.0).repeat(3)]).unsqueeze(1)
    assert some_values(dates, skewed, grid=3)[0] == [f"2024-01-{day:02}" for day in range(5, 17)]
    few, _, counted = some_values(column, torch.tensor([[1.0], [3.0], [3.0], [2.0]]), grid=10)
    assert few == [1.0, 2.0, 3.0]
    assert counted == [0.25, 0.25, 0.5]


def test_a_column_is_set_as_a_whole_in_the_units_of_the_table() -> None:
    x = rows()
    model = nn.Linear(5, 2).double()
    with torch.no_grad():
        model.bias.zero_()
        model.weight.copy_(torch.tensor([[0.0] * 5, [1.0, 3.0, -1.0, 0.0, 2.0]]))
    found = partial_dependence(model, Batch(x), TABLE)
    by_name = {column["name"]: column for column in found.numbers["columns"]}
    assert by_name["city"]["values"] == list(CITIES)
    for place, mean in enumerate(by_name["city"]["mean"]):
        moved = x.clone()
        moved[:, 2:] = torch.eye(3).double()[place]
        assert mean == pytest.approx(model(moved).softmax(-1).mean(0).tolist())
    assert by_name["age"]["values"][-1] == ""  # missing is a value of its own
    missing = x.clone()
    missing[:, :2] = torch.tensor([0.0, 1.0])
    assert by_name["age"]["mean"][-1] == pytest.approx(model(missing).softmax(-1).mean(0).tolist())
    assert min(by_name["age"]["values"][:-1]) > 10
    assert "the probability of well goes from" in found.says[0]
    assert "where age is missing" in found.says[0]
    assert faults(found.figure) == []
    other = partial_dependence(model, Batch(x), TABLE, columns=("city",), label="ill")
    assert [column["name"] for column in other.numbers["columns"]] == ["city"]
    assert "the probability of ill goes from" in other.says[0]
    assert "for city Ulm" in other.says[0]


class Product(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :1] * x[:, 1:]


def test_curves_are_parallel_just_where_no_other_column_matters() -> None:
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    additive = partial_dependence(nn.Linear(2, 1).double(), Batch(x), TableUnits.plain(2))
    assert all(column["spread_of_rows"] < 1e-12 for column in additive.numbers["columns"])
    assert "by 0 % of what it varies" in additive.says[2]
    product = partial_dependence(Product(), Batch(x - x.mean(0)), TableUnits.plain(2))
    assert all(column["spread_of_rows"] > 3 * column["spread_of_mean"] for column in product.numbers["columns"])
    assert "depends on other columns" in product.says[2]


@pytest.mark.slow
def test_all_classes_are_shown_where_there_are_more_than_two() -> None:
    x = torch.randn(30, 7, generator=torch.Generator().manual_seed(0))
    x[:, 6] = 1.0
    found = partial_dependence(nn.Linear(7, 3), Batch(x), TableUnits.plain(7, ("a", "b", "c")))
    legend = found.figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "c"]
    assert found.numbers["constant"] == ["x7"]
    assert "one value only in these rows: x7." in " ".join(found.says)
    assert faults(found.figure) == []


def test_wrong_columns_are_refused() -> None:
    model, table = nn.Linear(2, 1), TableUnits.plain(2)
    with pytest.raises(UsageError, match="no column 'x3'"):
        partial_dependence(model, Batch(torch.randn(3, 2)), table, columns=("x3",))
    with pytest.raises(UsageError, match="grid must be at least 2"):
        partial_dependence(model, Batch(torch.randn(3, 2)), table, grid=1)
    with pytest.raises(UsageError, match="every column has one value only"):
        partial_dependence(model, Batch(torch.zeros(3, 2)), table)

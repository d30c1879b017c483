"""Input gradients against the coefficients of linear models, the logistic derivative and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, UsageError
from deepcanon.core.table_units import ColumnUnits, TableUnits, Value
from deepcanon.insights.input_gradients import input_gradients
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.linear.svm import SVM
from deepcanon.pictures.legibility import faults


def age(features: Tensor) -> list[Value]:
    return ["" if missing else 40.0 + 10.0 * value for value, missing in features.tolist()]


def income(features: Tensor) -> list[Value]:
    values: list[Value] = (3000.0 + 500.0 * features[:, 0]).tolist()
    return values


def city(features: Tensor) -> list[Value]:
    return ["Ulm" if one else "Bonn" for one in features[:, 0].tolist()]


COLUMNS = (
    ColumnUnits("city", 2, city), ColumnUnits("age", 2, age), ColumnUnits("income", 1, income),
)  # fmt: skip
COST = TableUnits(COLUMNS, target="cost", offset=200.0, scale=44.0)


def rows(count: int = 50) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(count, 2, generator=generator, dtype=torch.float64)
    missing = (torch.rand(count, generator=generator) < 0.2).double()
    cities = torch.eye(2).double()[torch.randint(2, (count,), generator=generator)]
    return torch.column_stack([cities, numbers[:, 0] * (1 - missing), missing, numbers[:, 1]])


def test_of_a_linear_model_they_are_its_coefficients_in_the_units_of_the_table() -> None:
    model, x = nn.Linear(5, 1).double(), rows()
    found = input_gradients(model, Batch(x), COST)
    weight = model.weight[0].tolist()
    wanted = {"age": weight[2] * 44.0 / 10.0, "income": weight[4] * 44.0 / 500.0}
    known = np.array([value for value in age(x[:, 2:4]) if value != ""], dtype=float)
    for column in found.numbers["columns"]:
        (summary,) = column["per_unit"]
        assert summary["mean"] == pytest.approx(wanted[column["name"]], rel=1e-8)
        assert summary["std"] < 1e-8 * abs(summary["mean"])
    of_age = next(column for column in found.numbers["columns"] if column["name"] == "age")
    assert of_age["deviation"] == pytest.approx(known.std())  # of the rows that have an age
    assert of_age["per_deviation"][0]["mean"] == pytest.approx(known.std() * wanted["age"])
    assert found.numbers["left_out"] == ["city"]
    assert "city; partial_dependence shows what they do" in found.says[-1]


def test_of_a_logistic_model_they_are_p_times_one_minus_p_times_its_coefficients() -> None:
    model, x = nn.Linear(5, 2).double(), rows()
    found = input_gradients(model, Batch(x), TableUnits(COLUMNS, classes=("ill", "well")))
    p = model(x).softmax(-1)[:, 1].detach()
    slope = float((model.weight[1, 4] - model.weight[0, 4]).detach()) / 500.0
    of_income = next(column for column in found.numbers["columns"] if column["name"] == "income")
    assert of_income["per_unit"][1]["mean"] == pytest.approx(float((p * (1 - p) * slope).mean()))
    assert of_income["per_unit"][1]["std"] == pytest.approx(float((p * (1 - p) * slope).std(correction=0)))
    assert of_income["per_unit"][0]["mean"] == pytest.approx(-of_income["per_unit"][1]["mean"])
    assert "the probability of well changes by" in found.says[0]
    assert "percentage points" in found.says[0]
    of_ill = input_gradients(model, Batch(x), TableUnits(COLUMNS, classes=("ill", "well")), label="ill")
    assert "the probability of ill changes by" in of_ill.says[0]


def test_of_a_network_they_are_differences_of_its_predictions_in_the_table() -> None:
    torch.manual_seed(0)
    model, x = MLP(features=5, targets=1, hidden=(8,)).double(), rows()
    found = input_gradients(model, Batch(x), COST)
    step = 1e-4  # of one unit of income
    moved = torch.zeros_like(x)
    moved[:, 4] = step / 500.0
    differences = 44.0 * (model.predict(x + moved) - model.predict(x - moved))[:, 0] / (2 * step)
    of_income = next(column for column in found.numbers["columns"] if column["name"] == "income")
    (summary,) = of_income["per_unit"]
    assert summary["mean"] == pytest.approx(float(differences.mean()), rel=1e-5)
    assert summary["std"] == pytest.approx(float(differences.std(correction=0)), rel=1e-5)
    assert summary["size"] == pytest.approx(float(differences.abs().mean()), rel=1e-5)
    assert summary["positive"] == float((differences > 0).double().mean())
    assert summary["q25"] == pytest.approx(np.quantile(differences.numpy(), 0.25), rel=1e-5)
    first = found.numbers["of_first_column"]
    assert len(first["values"]) == len(first["gradients"])
    assert faults(found.figure) == []


class Square(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :1].square() + 5 * x[:, 1:2]


def test_columns_are_ordered_by_size_and_both_signs_are_named() -> None:
    x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = input_gradients(Square(), Batch(x), TableUnits.plain(2))
    assert [column["name"] for column in found.numbers["columns"]] == ["x2", "x1"]
    assert found.says[0].startswith("On average the target changes by +5 per unit of x2")
    assert found.says[2] == "The gradient is positive in some rows and negative in others by x1."


def test_all_classes_are_shown_where_there_are_more_than_two() -> None:
    x = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    found = input_gradients(nn.Linear(4, 3), Batch(x), TableUnits.plain(4, ("a", "b", "c")))
    assert [text.get_text() for text in found.figure.axes[0].get_legend().get_texts()] == ["a", "b", "c"]
    assert faults(found.figure) == []


def test_what_has_no_gradient_is_refused() -> None:
    with pytest.raises(UsageError, match="no column of different numbers"):
        input_gradients(nn.Linear(2, 1), Batch(torch.zeros(3, 2)), TableUnits.plain(2))
    with pytest.raises(UsageError, match="without probabilities"):
        input_gradients(SVM(features=2, classes=2), Batch(torch.randn(3, 2)), TableUnits.plain(2))
    with pytest.raises(UsageError, match="no column of different numbers"):
        input_gradients(nn.Linear(2, 1), Batch(torch.eye(2)), TableUnits(COLUMNS[:1]))

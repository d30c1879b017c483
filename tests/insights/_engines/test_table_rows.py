"""Predictions for rows of a table in its units, against finite differences, autograd and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Labeled, UsageError
from deepcanon.core.table_units import ColumnUnits, TableUnits
from deepcanon.insights._engines.table_rows import chosen_output, correlated, rows_of, say_correlated
from deepcanon.methods.bagging import Bagging
from deepcanon.models.autoencoders.autoencoder import Autoencoder
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.linear.svm import SVM


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_target_is_predicted_in_the_units_of_the_table() -> None:
    model, x = MLP(features=3, targets=1, hidden=(4,)).double(), drawn(5, 3)
    table = TableUnits(TableUnits.plain(3).columns, target="price", offset=100.0, scale=10.0)
    rows = rows_of(model, Labeled(x, torch.ones(5, 1)), table)
    torch.testing.assert_close(rows.predict(x), 100.0 + 10.0 * model.predict(x))
    assert rows.y is not None
    assert rows.y.tolist() == [[110.0]] * 5
    assert rows.outputs == ("price",)


def test_a_module_without_predict_gives_logits() -> None:
    model, x = nn.Linear(3, 2).double(), drawn(5, 3)
    rows = rows_of(model, Labeled(x, torch.tensor([0, 1, 0, 1, 1])), TableUnits.plain(3, ("cat", "dog")))
    torch.testing.assert_close(rows.predict(x), model(x).softmax(-1).detach())
    assert rows.outputs == ("cat", "dog")


@pytest.mark.parametrize(
    "model",
    [
        MLP(features=3, classes=3, hidden=(5,)),
        MLP(features=3, targets=2, hidden=(5,)),
        Bagging(MLP(features=3, classes=2, hidden=(4,)), members=2),
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)),
    ],
    ids=["classes", "targets", "bagging", "module"],
)
def test_gradients_are_those_of_finite_differences(model: Any) -> None:
    x, step = drawn(6, 3), 1e-6
    y = drawn(6, 2) if isinstance(model, MLP) and model.classes is None else torch.zeros(6, dtype=torch.long)
    rows = rows_of(model.double(), Labeled(x, y), TableUnits.plain(3))
    for feature in range(3):
        moved = torch.zeros_like(x)
        moved[:, feature] = step
        wanted = (rows.predict(x + moved) - rows.predict(x - moved)) / (2 * step)
        found = rows.gradients(feature)
        assert found is not None
        assert float(wanted.abs().max()) > 1e-4
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)


def test_the_gradient_of_one_row_is_that_of_autograd_and_the_model_is_left_alone() -> None:
    model, x = MLP(features=3, targets=1, hidden=(5,)).double().train(), drawn(4, 3).requires_grad_()
    (wanted,) = torch.autograd.grad(model(x).sum(), x)
    state = torch.get_rng_state()
    found = rows_of(model, Batch(x.detach()), TableUnits.plain(3)).gradients(1)
    assert found is not None
    torch.testing.assert_close(found[:, 0], wanted[:, 1])
    assert model.training
    assert torch.equal(state, torch.get_rng_state())


def test_classes_without_probabilities_have_no_gradient() -> None:
    rows = rows_of(SVM(features=3, classes=2).double(), Batch(drawn(4, 3)), TableUnits.plain(3))
    assert rows.gradients(0) is None


def test_correlations_are_those_of_numpy_by_column() -> None:
    x = drawn(50, 4)
    x[:, 2] = -x[:, 0] + 0.1 * x[:, 2]
    columns = (*TableUnits.plain(2).columns, ColumnUnits("pair", 2, lambda part: [0.0] * len(part)))
    found = correlated(rows_of(nn.Linear(4, 1).double(), Batch(x), TableUnits(columns)))
    assert [pair["columns"] for pair in found] == [["x1", "pair"]]
    assert found[0]["correlation"] == pytest.approx(np.corrcoef(x.T.numpy())[0, 2], abs=1e-12)
    assert "x1 and pair have a correlation of -0.99" in say_correlated(found, "so what")[0]
    assert say_correlated([], "so what") == []


def test_what_is_not_a_table_is_refused() -> None:
    model, table = MLP(features=4, classes=2), TableUnits.plain(4)
    with pytest.raises(UsageError, match=r"models of tables.*shape \(1, 2, 2\)"):
        rows_of(model, Batch(torch.zeros(3, 1, 2, 2)), table)
    with pytest.raises(UsageError, match="are 4 features; these rows have 3"):
        rows_of(model, Batch(torch.zeros(3, 3)), table)
    with pytest.raises(UsageError, match="autoencoder predicts no target"):
        rows_of(Autoencoder(features=4, latent=2), Batch(torch.zeros(3, 4)), table)
    with pytest.raises(UsageError, match=r"predicts 1 target; those of the rows have the shape \(2,\)"):
        rows_of(nn.Linear(4, 1), Labeled(torch.zeros(3, 4), torch.zeros(3, 2)), table)
    rows = rows_of(model, Batch(torch.zeros(3, 4)), TableUnits.plain(4, ("ill", "well")))
    with pytest.raises(UsageError, match="no class 'wel'; did you mean well"):
        chosen_output(rows, "wel")
    assert chosen_output(rows, "ill") == 0
    assert chosen_output(rows, None) == 1

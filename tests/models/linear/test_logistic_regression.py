"""Logistic regression: its optimum against scikit-learn, its gradient in closed form, and softmax with two classes."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression as Oracle
from torch import Generator

from deepcanon.core import Labeled, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.models.linear.logistic_regression import LogisticRegression
from deepcanon.models.linear.softmax_regression import SoftmaxRegression
from deepcanon.train import fit


def overlapping_classes() -> Labeled:
    """Two Gaussian clouds that no plane separates, so that the optimum is finite."""
    y = torch.arange(150) % 2
    x = torch.randn(150, 3, generator=Generator().manual_seed(0), dtype=torch.float64)
    return Labeled(x + 0.7 * y.unsqueeze(1), y)


def test_at_first_both_classes_are_equally_probable() -> None:
    model, batch = LogisticRegression.example()
    assert model.loss(batch)["nll"].item() == pytest.approx(math.log(2))


def test_the_default_recipe_finds_scikit_learns_optimum() -> None:
    batch = overlapping_classes()
    model = LogisticRegression(features=3).double()
    fit(model, from_tensors(batch.x, batch.y), quiet=True)
    oracle = Oracle(C=np.inf, tol=1e-12, max_iter=1000).fit(batch.x.numpy(), batch.y.numpy())
    np.testing.assert_allclose(model.linear.weight.detach().numpy(), oracle.coef_, rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.linear.bias.detach().numpy(), oracle.intercept_, rtol=0, atol=1e-4)
    shares = model.predict(batch.x, how="mean").numpy()
    np.testing.assert_allclose(shares, oracle.predict_proba(batch.x.numpy()), rtol=0, atol=1e-5)


def test_the_gradient_is_probability_minus_label_times_x() -> None:
    batch = overlapping_classes()
    model = LogisticRegression(features=3).double()
    torch.nn.init.normal_(model.linear.weight)
    model.loss(batch)["nll"].backward()
    off = torch.sigmoid(batch.x @ model.linear.weight[0].detach()) - batch.y
    assert model.linear.weight.grad is not None
    assert model.linear.bias.grad is not None
    torch.testing.assert_close(model.linear.weight.grad[0], off @ batch.x / len(batch), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(model.linear.bias.grad[0], off.mean(), rtol=1e-10, atol=1e-12)


def test_it_is_softmax_regression_of_two_classes_with_one_row_at_zero() -> None:
    batch = overlapping_classes()
    model, softmax = LogisticRegression(features=3).double(), SoftmaxRegression(features=3, classes=2).double()
    torch.nn.init.normal_(model.linear.weight)
    softmax.linear.weight.data[1] = model.linear.weight.data[0]
    torch.testing.assert_close(model(batch.x), softmax(batch.x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(model.loss(batch)["nll"], softmax.loss(batch)["nll"], rtol=1e-12, atol=1e-12)


def test_it_parts_the_moons_as_well_as_a_plane_can() -> None:
    data = load_data("moons")
    result = fit(LogisticRegression(features=2), data, quiet=True)
    oracle = Oracle(C=np.inf).fit(data.train.x.numpy(), data.train.y.numpy())
    held = data.split("test")
    assert result.test["accuracy"] == pytest.approx(oracle.score(held.x.numpy(), held.y.numpy()), abs=2e-3)


def test_classes_that_a_plane_separates_stay_finite() -> None:
    x = torch.tensor([[-1.0], [-2.0], [1.0], [2.0]])
    result = fit(LogisticRegression(features=1), from_tensors(x, [0, 0, 1, 1]), quiet=True)
    assert result.train["accuracy"] == 1
    assert math.isfinite(result.train["loss"])


def test_it_is_a_binary_classifier() -> None:
    with pytest.raises(UsageError, match=r"is a binary classifier \(got 3 classes\); use softmax_regression"):
        LogisticRegression(features=2, classes=3)  # type: ignore[arg-type]

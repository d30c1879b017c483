"""Softmax regression: its gradient in closed form, its optimum against scikit-learn, its accuracy on real digits."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Generator

from deepcanon.core import DataError, Labeled, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.models.linear.softmax_regression import SoftmaxRegression
from deepcanon.train import evaluate, fit


def overlapping_classes() -> Labeled:
    """Three Gaussian clouds that no linear map separates, so that the optimum is finite."""
    generator = Generator().manual_seed(0)
    y = torch.arange(120) % 3
    x = torch.randn(120, 2, generator=generator, dtype=torch.float64) + torch.eye(3, 2, dtype=torch.float64)[y]
    return Labeled(x, y)


def test_at_first_all_classes_are_equally_probable() -> None:
    model, batch = SoftmaxRegression.example()
    assert model.loss(batch)["nll"].item() == pytest.approx(math.log(3))


def test_the_gradient_is_probabilities_minus_one_hot_times_x() -> None:
    batch = overlapping_classes()
    model = SoftmaxRegression(features=2, classes=3).double()
    torch.nn.init.normal_(model.linear.weight)
    model.loss(batch)["nll"].backward()
    off = model.predict(batch.x, how="mean") - torch.nn.functional.one_hot(batch.y, 3)
    torch.testing.assert_close(model.linear.weight.grad, off.T @ batch.x / len(batch), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(model.linear.bias.grad, off.mean(0), rtol=1e-10, atol=1e-12)


def test_the_optimum_is_scikit_learns() -> None:
    batch = overlapping_classes()
    model = SoftmaxRegression(features=2, classes=3).double()
    data = from_tensors(batch.x, batch.y).with_validation_split(0)
    fit(model, data, quiet=True, optimizer="lbfgs", lr=1.0, batch_size=len(data.train), epochs=30)
    x, y = data.train.x.numpy(), data.train.y.numpy()
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x, y)
    mean = model.predict(batch.x, how="mean").numpy()
    np.testing.assert_allclose(mean, oracle.predict_proba(batch.x.numpy()), atol=1e-4)
    best = -np.log(oracle.predict_proba(x)[np.arange(len(y)), y]).mean()
    assert evaluate(model, data.train)["nll"] == pytest.approx(best, abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_reads_95_percent_of_real_digits(seed: int) -> None:
    data = load_data("digits")
    torch.manual_seed(seed)
    result = fit(SoftmaxRegression(features=64, classes=10), data, quiet=True, seed=seed)
    assert result.test["accuracy"] >= 0.95


def test_sizes_are_checked() -> None:
    with pytest.raises(UsageError, match="features must be at least 1"):
        SoftmaxRegression(features=0, classes=3)
    with pytest.raises(UsageError, match="classes must be at least 2"):
        SoftmaxRegression(features=4, classes=1)
    with pytest.raises(DataError, match="examples of 4 features"):
        SoftmaxRegression(features=4, classes=3)(torch.zeros(2, 5))

"""Linear regression: the least squares of NumPy and scikit-learn, by the closed form and by descent."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression as Oracle
from torch import Generator

from deepcanon.core import DataError, Labeled, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.models.linear.linear_regression import LinearRegression
from deepcanon.train import evaluate, fit


def noisy_plane(count: int = 200) -> Labeled:
    generator = Generator().manual_seed(0)
    x, noise = (torch.randn(count, size, generator=generator, dtype=torch.float64) for size in (5, 2))
    weight = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    return Labeled(3 * x + 10, x @ weight + noise - 4)


def fitted(batch: Labeled, solution: str = "exact", **settings: Any) -> LinearRegression:
    model = LinearRegression(batch.x.shape[1], batch.y.shape[1], solution=solution).double()  # type: ignore[arg-type]
    fit(model, from_tensors(batch.x, batch.y), quiet=True, **settings)
    return model


def weights(model: LinearRegression) -> NDArray[np.float64]:
    return torch.cat([model.linear.weight, model.linear.bias.unsqueeze(1)], dim=1).detach().numpy()


@pytest.mark.parametrize("solution", ["exact", "descent"])
def test_the_weights_are_those_of_numpy_and_of_scikit_learn(solution: str) -> None:
    batch = noisy_plane()
    found = weights(fitted(batch, solution))
    x, y = batch.x.numpy(), batch.y.numpy()
    numpy = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y)[0].T
    sklearn = Oracle().fit(x, y)
    np.testing.assert_allclose(found, numpy, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found, np.column_stack([sklearn.coef_, sklearn.intercept_]), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("size", "epochs"), [(1, 1), (7, 1), (200, 1), (64, 3)])
def test_neither_the_size_of_batches_nor_a_second_epoch_matters(size: int, epochs: int) -> None:
    batch = noisy_plane()
    found = weights(fitted(batch, batch_size=size, epochs=epochs))
    np.testing.assert_allclose(found, weights(fitted(batch)), rtol=0, atol=1e-10)


def test_it_keeps_its_digits_where_the_normal_equations_lose_them() -> None:
    generator = Generator().manual_seed(0)
    x = torch.randn(100, 1, generator=generator, dtype=torch.float64)
    near = torch.cat([x, x + 1e-7 * torch.randn(100, 1, generator=generator, dtype=torch.float64)], dim=1)
    truth, rows = np.array([[0.37, -1.91, 0.7]]), np.column_stack([near.numpy(), np.ones(100)])
    batch = Labeled(near, torch.from_numpy(rows @ truth.T))
    np.testing.assert_allclose(weights(fitted(batch, batch_size=10)), truth, rtol=0, atol=1e-6)
    normal = np.linalg.solve(rows.T @ rows, rows.T @ batch.y.numpy()).T
    assert np.abs(normal - truth).max() > 1e-3


def test_of_many_solutions_it_gives_that_of_smallest_norm() -> None:
    batch = noisy_plane()
    twice = Labeled(torch.cat([batch.x, batch.x], dim=1), batch.y)
    rows = np.column_stack([twice.x.numpy(), np.ones(len(twice))])
    found = weights(fitted(twice, batch_size=50))
    np.testing.assert_allclose(found, np.linalg.lstsq(rows, twice.y.numpy())[0].T, rtol=0, atol=1e-8)


def test_residuals_are_orthogonal_to_every_feature_and_sum_to_0() -> None:
    batch = noisy_plane()
    off = batch.y - fitted(batch).predict(batch.x)
    assert float((batch.x.T @ off).abs().max()) < 1e-8
    assert float(off.sum(0).abs().max()) < 1e-9


def test_real_patients_are_predicted_as_well_as_by_scikit_learn() -> None:
    data = load_data("diabetes")
    model = LinearRegression(features=10, targets=1)
    result = fit(model, data, quiet=True)
    oracle = Oracle().fit(data.train.x.numpy(), data.train.y.numpy())
    held = data.split("test")
    error = ((oracle.predict(held.x.numpy()) - held.y.numpy()) ** 2).mean()
    assert result.test["mse"] == pytest.approx(error, rel=1e-4)
    assert evaluate(model, held)["mse"] < 0.6


def test_arguments_and_targets_are_checked() -> None:
    with pytest.raises(UsageError, match="targets must be at least 1"):
        LinearRegression(features=2, targets=0)
    with pytest.raises(UsageError, match="solution must be one of exact, descent"):
        LinearRegression(features=2, targets=1, solution="guess")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"the targets must have the shape \(4, 2\), got \(4, 1\)"):
        LinearRegression(features=2, targets=2).absorb(Labeled(torch.zeros(4, 2), torch.zeros(4, 1)))

"""The adding problem: two marks, one in each half, and the sum of what they mark."""

import torch

from deepcanon.data.load import load_data
from deepcanon.data.sets.adding import LENGTH, problems


def test_the_target_is_the_sum_of_the_marked_numbers() -> None:
    batch = problems(200, length=30, seed=3)
    numbers, marks = batch.x.double().unbind(2)
    assert torch.equal(marks[:, :15].sum(1), torch.ones(200, dtype=torch.float64))
    assert torch.equal(marks[:, 15:].sum(1), torch.ones(200, dtype=torch.float64))
    torch.testing.assert_close((numbers * marks).sum(1, keepdim=True), batch.y.double(), rtol=0, atol=1e-6)
    assert bool((numbers >= 0).all())
    assert bool((numbers < 1).all())


def test_predicting_the_mean_has_a_squared_error_of_one_sixth() -> None:
    data = load_data("adding")
    assert data.train.x.shape == (20000, LENGTH, 2)
    mse = float((data.train.y - 1).double().square().mean())
    error = (7 / 180 / len(data.train)) ** 0.5  # the squares of these errors have the variance 7/180
    assert abs(mse - 1 / 6) < 5 * error
    assert not torch.equal(data.train.x[:1000], data.split("valid").x)

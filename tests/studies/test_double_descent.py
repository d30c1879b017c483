"""The error of shortest fits is what the theorem says, and peaks where parameters are as many as examples."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from deepcanon.core import UsageError
from deepcanon.studies.double_descent import double_descent, expected_risk, measured_risks, shortest_fit


@pytest.mark.parametrize("parameters", [1, 4, 7, 16, 22, 30])
def test_the_mean_error_of_many_fits_is_the_expected_one(parameters: int) -> None:
    risks = measured_risks(parameters, 12, 30, 0.5, draws=4000, random=np.random.default_rng(0))
    error = risks.std() / math.sqrt(len(risks))
    assert abs(risks.mean() - expected_risk(parameters, 12, 30, 0.5)) < 4 * error
    assert error < 0.05 * risks.mean()


def test_the_measured_error_of_a_fit_is_that_at_new_examples() -> None:
    """One fit by scikit-learn to the same draws, and its squared error at many new examples."""
    (risk,) = measured_risks(3, 8, 5, 0.5, draws=1, random=np.random.default_rng(7))
    random = np.random.default_rng(7)
    truth = random.standard_normal(5)
    truth /= np.linalg.norm(truth)
    x = random.standard_normal((8, 5))
    y = x @ truth + 0.5 * random.standard_normal(8)
    fit = LinearRegression(fit_intercept=False).fit(x[:, :3], y)
    new = random.standard_normal((400_000, 5))
    errors = (new @ truth + 0.5 * random.standard_normal(len(new)) - fit.predict(new[:, :3])) ** 2
    assert risk == pytest.approx(errors.mean(), rel=0.01)


def test_the_expected_error_at_its_ends() -> None:
    assert expected_risk(0, 40, 100, 0.2, signal=2.0) == pytest.approx(4 + 0.04)  # it says nothing but zero
    assert [expected_risk(p, 40, 100, 0.2) for p in (39, 40, 41)] == [math.inf] * 3
    assert expected_risk(20, 60, 20, 0.3) == pytest.approx(0.09 * (1 + 20 / 39))  # ordinary least squares
    beyond = [expected_risk(p, 40, 100, 0.2) for p in range(42, 101)]
    assert beyond == sorted(beyond, reverse=True)
    assert beyond[-1] < min(expected_risk(p, 40, 100, 0.2) for p in range(39))


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_the_shortest_fit_is_that_of_the_pseudo_inverse_and_of_ridge_regression(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal(shape), random.standard_normal((shape[0], 2))
    np.testing.assert_allclose(shortest_fit(x, y), np.linalg.pinv(x) @ y)
    peer = Ridge(alpha=0.1 * len(x), fit_intercept=False, solver="cholesky").fit(x, y)
    np.testing.assert_allclose(shortest_fit(x, y, 0.1), peer.coef_.T)


def test_the_peak_is_where_features_are_as_many_as_examples() -> None:
    finding = double_descent(examples=10, features=24, draws=40, training=60, counts=(15, 40, 60, 90, 600), seeds=3)
    rows = {row["features"]: row for row in finding.numbers["random_features"]}
    assert max(rows, key=lambda count: rows[count]["test"]) == 60
    assert max(rows, key=lambda count: rows[count]["length"]) == 60
    assert rows[600]["test"] < rows[60]["test"] - 0.2 > rows[15]["test"] - 0.2
    assert rows[60]["penalized"] < rows[60]["test"] - 0.2
    for count, row in rows.items():
        assert (row["left"] < 1e-12) == (count >= 60), count
    risks = {row["parameters"]: row["mean"] for row in finding.numbers["gaussian"]}
    assert {8, 9, 10, 11, 12, 24} <= risks.keys()
    assert max(risks, key=risks.__getitem__) in (9, 10, 11)
    _, as_many, many = (np.array(fits) for fits in finding.numbers["waves"]["fits"].values())
    assert as_many.std(0).mean() > 2 * many.std(0).mean()


def test_sizes_and_data_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="features must be 42 or more"):
        double_descent(features=41)
    with pytest.raises(UsageError, match="needs at least 2 draws and 2 seeds"):
        double_descent(draws=1)
    with pytest.raises(UsageError, match="diabetes has none"):
        double_descent(data="diabetes")

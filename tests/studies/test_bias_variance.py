"""The closed form is scikit-learn's least squares over many data sets, and what was measured agrees with it."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from deepcanon.core import UsageError
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.studies.bias_variance import INPUTS, bias_variance, closed_form, monte_carlo, polynomial

X = np.linspace(-1, 1, 20)


@pytest.mark.parametrize(("degree", "ridge"), [(0, 0.0), (3, 0.0), (9, 0.0), (9, 0.1)])
def test_the_matrices_are_those_of_least_squares(degree: int, ridge: float) -> None:
    y = np.random.default_rng(0).standard_normal(20)
    own, there = polynomial(X, INPUTS, degree, ridge)
    if ridge:
        model = Ridge(alpha=ridge * 20, fit_intercept=False)
        wanted = model.fit(np.polynomial.legendre.legvander(X, degree), y).predict(
            np.polynomial.legendre.legvander(INPUTS, degree)
        )
    else:
        wanted = np.polyval(np.polyfit(X, y, degree), INPUTS)
    np.testing.assert_allclose(there @ y, wanted, atol=1e-8)
    np.testing.assert_allclose(own, polynomial(X, X, degree, ridge)[1], atol=1e-12)


@pytest.mark.parametrize("degree", [2, 5, 11])
def test_variance_is_one_share_of_noise_per_parameter(degree: int) -> None:
    """At its own inputs least squares has the variance noise * p / n, and leaves noise * (1 - p / n)."""
    own, _ = polynomial(X, INPUTS, degree)
    cubic = X**2 - X
    parts = closed_form(own, cubic, own, cubic, noise=0.5)
    assert parts.variance == pytest.approx(0.25 * (degree + 1) / 20)
    assert parts.train == pytest.approx(0.25 * (1 - (degree + 1) / 20))
    assert parts.bias == pytest.approx(0, abs=1e-20)  # the truth is a polynomial of degree 2
    assert parts.total == pytest.approx(0.25 * (1 + (degree + 1) / 20))


def test_measured_parts_are_unbiased() -> None:
    """At each of many inputs three fits are measured; the plain square of their mean would be 1/3 too large."""
    random = np.random.default_rng(0)
    said, new = 0.3 + random.standard_normal((3, 20_000)), 2 * random.standard_normal((3, 20_000))
    parts, error = monte_carlo(said, np.zeros(20_000), new, new)
    assert parts.bias == pytest.approx(0.09, abs=0.02)
    assert parts.variance == pytest.approx(1, abs=0.03)
    assert parts.noise == pytest.approx(4, abs=0.1)
    assert error == pytest.approx(parts.total, abs=0.1)


@pytest.mark.slow
def test_what_the_study_measures_is_what_the_closed_form_says() -> None:
    finding = bias_variance(
        MLP, examples=20, noise=0.2, datasets=4000, degrees=(0, 3, 7), widths=(1, 6), networks=8, steps=150, seed=3
    )
    rows: list[dict[str, Any]] = [*finding.numbers["degree"]["rows"], *finding.numbers["ridge"]["rows"]]
    assert [row["setting"] for row in rows[:3]] == [0, 3, 7]
    for row in rows:
        for part, exact in row["exact"].items():
            assert row["measured"][part] == pytest.approx(exact, rel=0.05, abs=1e-4), (row["setting"], part)
        assert row["error"] == pytest.approx(row["exact"]["total"], rel=0.05)
    bias, variance = ([row["exact"][part] for row in rows[:3]] for part in ("bias", "variance"))
    assert bias == sorted(bias, reverse=True)
    assert variance == sorted(variance)
    narrow, wide = finding.numbers["width"]["rows"]
    assert narrow["measured"]["bias"] > 10 * wide["measured"]["bias"]
    for row in (narrow, wide):
        assert row["error"] == pytest.approx(row["measured"]["total"], rel=0.1)
    assert finding.numbers["degree"]["best"] == 7
    assert len(finding.figure.axes) == 5  # the best degree is also the highest


def test_too_few_examples_or_data_sets_are_refused() -> None:
    with pytest.raises(UsageError, match="a polynomial of degree 16 needs more than 16 examples"):
        bias_variance(MLP, examples=16)
    with pytest.raises(UsageError, match="a variance needs at least 2 data sets"):
        bias_variance(MLP, networks=1)

"""The variances of the estimators by Gauss-Hermite quadrature, and gradients through other distributions."""

import numpy as np
import pytest
import torch

from deepcanon.studies.gradient_estimators import (
    CASES,
    NAMES,
    gradient_estimators,
    gradients,
    reparameterized,
    variance,
)


@pytest.mark.parametrize("mean", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("name", NAMES)
def test_the_formulas_are_the_integrals(name: str, mean: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each estimate is a polynomial of the noise, of which the quadrature gives the moments exactly."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    monkeypatch.setattr(torch, "randn", lambda *_, **__: torch.from_numpy(nodes.copy()))
    found = gradients(name, mean, len(nodes)).numpy()
    weights = weights / weights.sum()
    expected = float(weights @ found)
    assert expected == pytest.approx(2 * mean, abs=1e-10)
    assert float(weights @ (found - expected) ** 2) == pytest.approx(variance(name, mean), rel=1e-10)


def test_the_printed_variances() -> None:
    assert [variance("score function", mean) for mean in (0.0, 1.0, 3.0)] == [15, 30, 222]
    assert variance("reparameterization", 3.0) == 4


def test_the_best_constant_is_subtracted() -> None:
    """Any other constant has a larger variance."""
    torch.manual_seed(0)
    noise = torch.randn(200_000, dtype=torch.float64)
    z = 1.5 + noise
    others = [float(((z.square() - (1.5**2 + 3 + shift)) * noise).var()) for shift in (-1.0, 0.0, 1.0)]
    assert min(others) == others[1]
    assert others[1] == pytest.approx(variance("with a control variate", 1.5), rel=0.03)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0]))
def test_gradients_through_samples_are_the_exact_derivatives(case: tuple[object, ...]) -> None:
    torch.manual_seed(0)
    found = reparameterized(*case, 50_000)  # type: ignore[arg-type, call-arg]
    assert abs(found["measured"] - found["exact"]) < 4 * found["error"]
    assert found["error"] < 0.05


def test_the_study_leaves_the_random_state_alone() -> None:
    state = torch.get_rng_state()
    numbers = gradient_estimators(draws=20_000).numbers
    assert torch.equal(torch.get_rng_state(), state)
    for name in NAMES:
        for each, exact in zip(numbers["measured"][name], numbers["exact"][name], strict=True):
            assert each["variance"] == pytest.approx(exact, rel=0.15)
        counted = [found * count for found, count in zip(numbers["by_count"][name], numbers["counts"], strict=True)]
        assert counted == pytest.approx([variance(name, 1.0)] * len(counted), rel=0.35)

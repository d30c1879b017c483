"""Accelerated descent: heights by closed form and by torch, the orders 1 and 2, and the bounds."""

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.studies.accelerated_descent import METHODS, accelerated_descent, bounds, descended

EIGENVALUES = torch.tensor([0.02, 0.3, 1.0], dtype=torch.float64)
START = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)


def test_exponents_are_one_and_two_and_the_bounds_hold() -> None:
    methods = accelerated_descent().numbers["methods"]
    plain, constant, nesterov = (methods[name] for name in METHODS)
    assert plain["exponent"] == pytest.approx(1, abs=0.02)
    assert constant["exponent"] == pytest.approx(1, abs=0.05)
    assert nesterov["exponent"] == pytest.approx(2, abs=0.05)
    assert constant["heights"][-1] == pytest.approx(plain["heights"][-1] / 10, rel=0.05)  # 1 / (1 - 0.9)
    assert 0 < plain["highest_share"] < 1
    assert 0 < nesterov["highest_share"] < 1


def test_gradient_descent_has_its_closed_form() -> None:
    heights = descended(METHODS[0], EIGENVALUES, START, 50, 0.9)
    for t in (0, 1, 7, 50):
        closed = 0.5 * (EIGENVALUES * START**2 * (1 - EIGENVALUES) ** (2 * t)).sum()
        assert heights[t] == pytest.approx(float(closed), rel=1e-12)


def test_constant_momentum_is_torchs() -> None:
    """Torch keeps the point y at which gradients are taken; x is one gradient step from it."""
    y = START.clone().requires_grad_()
    optimizer = torch.optim.SGD([y], lr=1.0, momentum=0.9, nesterov=True)
    heights = descended(METHODS[1], EIGENVALUES, START, 20, 0.9)
    for step in range(20):
        y.grad = EIGENVALUES * y.detach()
        x = (y - y.grad).detach()
        assert heights[step + 1] == pytest.approx(float(EIGENVALUES @ x.square()) / 2, rel=1e-12)
        optimizer.step()


def test_nesterovs_method_in_any_coordinates_by_autograd() -> None:
    """The sequence as its paper has it, on a matrix that is not diagonal."""
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64))[0]
    matrix = turn @ EIGENVALUES.diag() @ turn.T
    before = x = turn @ START
    heights = descended(METHODS[2], EIGENVALUES, START, 30, 0.9)
    for t in range(1, 31):
        y = (x + (t - 1) / (t + 2) * (x - before)).requires_grad_()
        (slope,) = torch.autograd.grad(0.5 * y @ matrix @ y, y)
        before, x = x, (y - slope).detach()
        assert heights[t] == pytest.approx(float(0.5 * x @ matrix @ x), rel=1e-9)


def test_the_bound_is_broken_by_a_step_that_is_too_long() -> None:
    """A planted fault: with eigenvalues beyond L the same steps are above the bound."""
    heights = descended(METHODS[2], 1.5 * EIGENVALUES, START, 40, 0.9)
    limits = bounds(METHODS[2], float(START.square().sum()), 40)
    assert any(height > limit for height, limit in zip(heights[1:], limits, strict=True))


def test_what_is_no_spectrum_is_refused() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        accelerated_descent(smallest=2.0)
    with pytest.raises(UsageError, match="below 1"):
        accelerated_descent(momentum=1.0)

"""The quadratic cost is half of torch's squared error; at a saturated logistic unit its gradient vanishes."""

from __future__ import annotations

import pytest
import torch

from deepcanon.losses import quadratic_cost


def test_it_is_half_of_the_squared_error_and_its_gradient_the_difference() -> None:
    torch.manual_seed(0)
    outputs = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    targets = torch.randn(7, 3, dtype=torch.float64)
    cost = quadratic_cost(outputs, targets)
    mse = torch.nn.functional.mse_loss(outputs, targets, reduction="sum")
    assert cost.item() == pytest.approx(mse.item() / 14, rel=1e-12)
    (gradient,) = torch.autograd.grad(cost, outputs)
    torch.testing.assert_close(gradient, (outputs - targets).detach() / 7)


def test_at_a_saturated_unit_its_slope_has_the_factor_of_the_logistic_function() -> None:
    z = torch.tensor([[6.0]], dtype=torch.float64, requires_grad=True)
    a = z.sigmoid()
    (slope,) = torch.autograd.grad(quadratic_cost(a, torch.zeros_like(a)), z)
    assert slope.item() == pytest.approx((a * a * (1 - a)).item(), rel=1e-12)
    assert slope.item() < 0.003  # where that of the cross-entropy is a - y, almost one

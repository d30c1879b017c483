"""Bisection: roots as scipy finds them, and first and second derivatives by finite differences."""

import math

import torch
from scipy.optimize import brentq
from torch import Tensor

from deepcanon.nn.bisection import bisection


def solved(y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The x with x + a tanh(x + b) = y; a > -1."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        bend = (x + b).tanh()
        return x + a * bend, 1 + a * (1 - bend.square())

    return bisection(function, y, y - a.abs(), y + a.abs())


def cases() -> tuple[Tensor, Tensor, Tensor]:
    y = torch.tensor([0.3, -2.0, 5.0, 0.0], dtype=torch.float64, requires_grad=True)
    a = torch.tensor([2.0, -0.9, 30.0, 0.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.1, 1.0, -1.0, 0.5], dtype=torch.float64, requires_grad=True)
    return y, a, b


def test_roots_are_those_of_scipy() -> None:
    y, a, b = cases()
    for root, at, steep, shift in zip(solved(y, a, b), y.tolist(), a.tolist(), b.tolist(), strict=True):
        wanted = brentq(lambda x, u=steep, v=shift, w=at: x + u * math.tanh(x + v) - w, -50, 50, xtol=1e-14)
        assert abs(root.item() - wanted) < 1e-11


def test_first_and_second_derivatives_are_right() -> None:
    """Of the last case the interval is one point, at which a has no two sides."""
    y, a, b = (part.detach()[:3].requires_grad_() for part in cases())
    assert torch.autograd.gradcheck(solved, (y, a, b), atol=1e-6)
    assert torch.autograd.gradgradcheck(solved, (y, a, b), atol=1e-5)


def test_single_precision_is_used_up() -> None:
    y, a, b = (part.detach().float() for part in cases())
    x = solved(y, a, b)
    torch.testing.assert_close(x + a * (x + b).tanh(), y, rtol=1e-5, atol=2e-5)

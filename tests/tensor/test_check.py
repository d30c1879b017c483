"""The gradient check finds a planted fault and names it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deepcanon.tensor as dt
from deepcanon.tensor import GradientError, Operation


def test_a_right_derivative_passes() -> None:
    worst = dt.check_gradients(lambda a, b: np.sin(a) @ b, np.ones((2, 3)), np.arange(3.0))
    assert worst.error < 1e-6


def test_a_wrong_first_derivative_is_named_with_its_entry() -> None:
    wrong: Any = Operation("wrong", lambda x: x**2, lambda g, y, x: g * (2 * x + np.where(x > 4, 1.0, 0.0)))
    with pytest.raises(GradientError, match=r"derivative of order 1 by argument 0 at \(1, 2\).*finite differences"):
        dt.check_gradients(wrong, np.arange(6.0).reshape(2, 3), order=1)


def test_a_derivative_that_is_wrong_only_at_the_second_order_is_found() -> None:
    """A rule that keeps its argument's value but loses its graph."""
    wrong: Any = Operation(
        "wrong", lambda x: x**3, lambda g, y, x: g * (3 * (x.numpy() if isinstance(x, dt.Tensor) else x) ** 2)
    )
    assert dt.check_gradients(wrong, [1.0, 2.0], order=1).order == 1
    with pytest.raises(GradientError, match="derivative of order 2"):
        dt.check_gradients(wrong, [1.0, 2.0])


def test_a_nan_does_not_pass() -> None:
    wrong: Any = Operation("wrong", lambda x: x, lambda g, y, x: g * np.nan)
    with pytest.raises(GradientError, match="nan"):
        dt.check_gradients(wrong, 1.0, order=1)

"""Finite differences tell a right delta from a wrong one, and a corner from both."""

from __future__ import annotations

import numpy as np
import pytest

from deepcanon.microscopy.verdict import Array, judge, moved

EPS = float(np.finfo(np.float64).eps)


def cubes(x: Array) -> float:
    return float((x**3).sum())


def test_the_derivative_agrees() -> None:
    x = np.random.default_rng(0).standard_normal((30, 40))
    verdict = judge(cubes, x, 3 * x**2, float(np.abs(x**3).sum()), EPS)
    assert verdict.status == "agrees"
    assert verdict.gap < 1e-6


@pytest.mark.parametrize("entry", [0, 617, 1199])
def test_one_wrong_entry_among_many_is_found_and_named(entry: int) -> None:
    x = np.random.default_rng(1).standard_normal((30, 40))
    delta = 3 * x**2
    delta.reshape(-1)[entry] += 0.1
    verdict = judge(cubes, x, delta, float(np.abs(x**3).sum()), EPS)
    assert verdict.status == "mismatch"
    assert verdict.detail == f"at entry {[entry // 40, entry % 40]}"
    assert verdict.given - verdict.measured == pytest.approx(0.1, rel=1e-5)


@pytest.mark.parametrize("factor", [1.001, -1.0, 0.0])
def test_a_wrong_factor_is_a_mismatch(factor: float) -> None:
    x = np.array(0.7)
    assert judge(cubes, x, np.asarray(factor * 3 * x**2), 0.343, EPS).status == "mismatch"


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_at_a_corner_any_slope_between_the_two_will_do(slope: float) -> None:
    x = np.array([0.0, 1.0, -2.0])
    delta = np.array([slope, 1.0, 0.0])
    assert judge(lambda x: float(np.maximum(x, 0).sum()), x, delta, 1.0, EPS).status == "kink"


def test_a_slope_outside_a_corner_is_a_mismatch() -> None:
    x = np.array([0.0, 1.0, -2.0])
    delta = np.array([1.5, 1.0, 0.0])
    assert judge(lambda x: float(np.maximum(x, 0).sum()), x, delta, 1.0, EPS).status == "mismatch"


def test_a_wrong_entry_is_found_among_corners() -> None:
    x = np.zeros(50)
    x[20:] = np.linspace(1, 2, 30)
    delta = (x > 0).astype(float)
    assert judge(lambda x: float(np.maximum(x, 0).sum()), x, delta, 60.0, EPS).status == "kink"
    delta[33] = -4.0
    verdict = judge(lambda x: float(np.maximum(x, 0).sum()), x, delta, 60.0, EPS)
    assert (verdict.status, verdict.detail) == ("mismatch", "at entry [33]")


def test_single_precision_is_judged_by_what_it_can_tell() -> None:
    x = np.random.default_rng(2).standard_normal(20).astype(np.float32)
    eps = float(np.finfo(np.float32).eps)
    weights = np.linspace(0.5, 1.5, 20)

    def height(x: Array) -> float:
        return float(weights @ np.tanh(x))

    right = (weights * (1 - np.tanh(x) ** 2)).astype(np.float32)
    size = float(weights @ np.abs(np.tanh(x)))
    assert judge(height, x, right, size, eps).status == "agrees"
    assert judge(height, x, 1.2 * right, size, eps).status == "mismatch"


def test_a_moved_array_keeps_its_order_in_memory() -> None:
    x = np.arange(6.0).reshape(2, 3).T
    there = moved(x, 0.5, np.ones((3, 2)))
    assert there.strides == x.strides
    np.testing.assert_array_equal(there, x + 0.5)

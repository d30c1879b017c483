"""Elementwise operations with their derivatives (the table of operations, first part).

Where a function has a corner, its row says which derivative is taken there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from deepcanon.tensor.operation import Operation, Value

_FIT = "aligned at the last axis, sizes must be equal or 1"


def _power_of_base(g: Value, y: Value, a: Value, b: Value) -> Value:
    """The derivative of ``a ** b`` by a; 0 where b is 0, also at a = 0."""
    if isinstance(b, int | float):
        return g * (b * a ** (b - 1)) if b else g * 0
    zero = b == 0
    return g * np.where(zero, 0, b * a ** np.where(zero, 1, b - 1))


def _larger(g: Value, mine: Value, other: Value) -> Value:
    """The whole delta to the larger of two, half of it to each of equals."""
    return np.where(mine > other, g, np.where(mine == other, 0.5 * g, 0))


def _safe(y: Value) -> Value:
    """A divisor that is never 0: what is divided by it is then 0 itself."""
    return np.where(y == 0, 1, y)


add = Operation("add", np.add, lambda g, y, a, b: g, lambda g, y, a, b: g, reads=False, hint=_FIT)
subtract = Operation("subtract", np.subtract, lambda g, y, a, b: g, lambda g, y, a, b: -g, reads=False, hint=_FIT)
multiply = Operation("multiply", np.multiply, lambda g, y, a, b: g * b, lambda g, y, a, b: g * a, hint=_FIT)
divide = Operation("divide", np.divide, lambda g, y, a, b: g / b, lambda g, y, a, b: -g * y / b, hint=_FIT)
power = Operation(
    "power",
    np.power,
    _power_of_base,
    lambda g, y, a, b: g * y * np.log(np.where(a == 0, 1, a)),  # 0 at a = 0
    hint=_FIT,
)
remainder = Operation(
    "remainder", np.remainder, lambda g, y, a, b: g, lambda g, y, a, b: -g * np.floor_divide(a, b), hint=_FIT
)
negative = Operation("negative", np.negative, lambda g, y, x: -g, reads=False)
positive = Operation("positive", np.positive, lambda g, y, x: g, reads=False)
reciprocal = Operation("reciprocal", np.reciprocal, lambda g, y, x: -g * y * y)
square = Operation("square", np.square, lambda g, y, x: g * (2 * x))
sqrt = Operation("sqrt", np.sqrt, lambda g, y, x: g * 0.5 / y)  # infinite at 0; `norm` and `std` are 0 there
absolute = Operation("abs", np.absolute, lambda g, y, x: g * np.sign(x))  # 0 at 0

exp = Operation("exp", np.exp, lambda g, y, x: g * y)
expm1 = Operation("expm1", np.expm1, lambda g, y, x: g * (y + 1))
log = Operation("log", np.log, lambda g, y, x: g / x)
log1p = Operation("log1p", np.log1p, lambda g, y, x: g / (1 + x))
log2 = Operation("log2", np.log2, lambda g, y, x: g / (math.log(2) * x))
log10 = Operation("log10", np.log10, lambda g, y, x: g / (math.log(10) * x))
logaddexp = Operation(
    "logaddexp", np.logaddexp, lambda g, y, a, b: g * np.exp(a - y), lambda g, y, a, b: g * np.exp(b - y), hint=_FIT
)

sin = Operation("sin", np.sin, lambda g, y, x: g * np.cos(x))
cos = Operation("cos", np.cos, lambda g, y, x: -g * np.sin(x))
tan = Operation("tan", np.tan, lambda g, y, x: g * (1 + y * y))
arcsin = Operation("arcsin", np.arcsin, lambda g, y, x: g / np.sqrt(1 - x * x))
arccos = Operation("arccos", np.arccos, lambda g, y, x: -g / np.sqrt(1 - x * x))
arctan = Operation("arctan", np.arctan, lambda g, y, x: g / (1 + x * x))
arctan2 = Operation(
    "arctan2",
    np.arctan2,
    lambda g, y, a, b: g * b / _safe(a * a + b * b),  # 0 at the origin
    lambda g, y, a, b: -g * a / _safe(a * a + b * b),
    hint=_FIT,
)
hypot = Operation(
    "hypot",
    np.hypot,
    lambda g, y, a, b: g * a / _safe(y),  # 0 at the origin
    lambda g, y, a, b: g * b / _safe(y),
    hint=_FIT,
)
sinh = Operation("sinh", np.sinh, lambda g, y, x: g * np.cosh(x))
cosh = Operation("cosh", np.cosh, lambda g, y, x: g * np.sinh(x))
tanh = Operation("tanh", np.tanh, lambda g, y, x: g * (1 - y * y))
arcsinh = Operation("arcsinh", np.arcsinh, lambda g, y, x: g / np.sqrt(x * x + 1))
arccosh = Operation("arccosh", np.arccosh, lambda g, y, x: g / np.sqrt(x * x - 1))
arctanh = Operation("arctanh", np.arctanh, lambda g, y, x: g / (1 - x * x))

maximum = Operation(  # equals share the delta
    "maximum", np.maximum, lambda g, y, a, b: _larger(g, a, b), lambda g, y, a, b: _larger(g, b, a), hint=_FIT
)
minimum = Operation(
    "minimum", np.minimum, lambda g, y, a, b: _larger(g, b, a), lambda g, y, a, b: _larger(g, a, b), hint=_FIT
)
copysign = Operation(
    "copysign", np.copysign, lambda g, y, a, b: g * np.copysign(1, a) * np.copysign(1, b), lambda g, y, a, b: None
)
where = Operation(
    "where", np.where, None, lambda g, y, c, a, b: np.where(c, g, 0), lambda g, y, c, a, b: np.where(c, 0, g), hint=_FIT
)


def _clip(x: np.ndarray[Any, Any], low: Any, high: Any) -> Any:
    return np.clip(x, low, high)


def _inside(g: Value, y: Value, x: Value, low: Any, high: Any) -> Value:
    if low is not None:
        g = np.where(x >= low, g, 0)
    return g if high is None else np.where(x <= high, g, 0)


clip = Operation("clip", _clip, _inside, hint=_FIT)  # 1 at the bounds, which are constants


def _sigmoid(x: np.ndarray[Any, Any]) -> Any:
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1, small) / (1 + small)


sigmoid = Operation("sigmoid", _sigmoid, lambda g, y, x: g * (y * (1 - y)))
relu = Operation("relu", lambda x: np.maximum(x, 0), lambda g, y, x: g * (y > 0))  # 0 at 0
softplus = Operation("softplus", lambda x: np.logaddexp(x, 0), lambda g, y, x: g * sigmoid(x))


def _scaled_erfc(t: float) -> float:
    """``exp(t²) erfc(t)`` for t >= 0; its asymptotic series where erfc itself underflows."""
    if t < 20:
        return math.exp(t * t) * math.erfc(t)
    term, total = 1.0, 1.0
    for k in range(1, 8):
        term *= -(2 * k - 1) / (2 * t * t)
        total += term
    return total / (t * math.sqrt(math.pi))


_TURN = 3.75
"""Where ``(t - turn) / (t + turn)``, which maps the half line to [-1, 1], passes 0."""

_ERFC = np.polynomial.chebyshev.chebinterpolate(
    np.vectorize(lambda u: (1 + 2 * _TURN * (1 + u) / (1 - u)) * _scaled_erfc(_TURN * (1 + u) / (1 - u))), 30
).tolist()
"""Chebyshev coefficients of ``(1 + 2 t) exp(t²) erfc(t)``, which is smooth (Shepherd and Laframboise, 1981)."""

_ERF = [2 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(14)]
"""The power series of ``erf(x) / x`` in x²."""


def _erf(x: np.ndarray[Any, Any]) -> Any:
    """The error function, which NumPy lacks: its power series near 0, one Chebyshev series elsewhere."""
    x = np.asarray(x)
    t = np.minimum(np.abs(x), 30)  # beyond, erf is 1 to the last digit
    u = (t - _TURN) / (t + _TURN)
    above, current = u * 0, u * 0
    for coefficient in reversed(_ERFC[1:]):  # Clenshaw's recurrence
        above, current = current, 2 * u * current - above + coefficient
    tail = (u * current - above + _ERFC[0]) * np.exp(-t * t) / (1 + 2 * t)
    series, small = u * 0, np.minimum(t, 0.5) ** 2
    for coefficient in reversed(_ERF):
        series = series * small + coefficient
    return np.where(t < 0.5, x * series, np.copysign(1 - tail, x))


erf = Operation("erf", _erf, lambda g, y, x: g * (2 / math.sqrt(math.pi) * np.exp(-x * x)))

_STEPS = [
    *(np.sign, np.floor, np.ceil, np.trunc, np.rint, np.floor_divide, np.nextafter, np.signbit),
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.isnan, np.isinf, np.isfinite),
    *(np.logical_and, np.logical_or, np.logical_xor, np.logical_not, np.conjugate),
    *(np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.left_shift, np.right_shift),
]
"""Functions that are constant between their steps: their derivative is 0, so nothing is recorded."""

steps: dict[str, Operation] = {step.__name__: Operation(step.__name__, step, hint=_FIT) for step in _STEPS}

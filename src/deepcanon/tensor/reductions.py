"""Reductions (sums, means, extremes) and cumulative operations with their derivatives (the table, third part)."""

from __future__ import annotations

from math import prod as product
from typing import Any

import numpy as np

from deepcanon.tensor.elementwise import _safe
from deepcanon.tensor.movement import Axes, axes_of, expand, expand_dims, flip, reshape, take_along_axis
from deepcanon.tensor.operation import Operand, Operation, Value, speaks

Array = np.ndarray[Any, Any]


def _kept(r: Value, x: Value, axis: Axes, keepdims: bool) -> Value:
    """A result of a reduction with the reduced axes kept at size 1, so that it broadcasts against x."""
    if keepdims or axis is None:
        return r
    return expand_dims(r, axes_of(axis, x.ndim))


def _spread(g: Value, x: Value, axis: Axes, keepdims: bool) -> Value:
    """The delta of a reduction given to everything that was reduced."""
    return expand(_kept(g, x, axis, keepdims), shape=x.shape)


def count(x: Value, axis: Axes) -> int:
    """The number of elements that one result of a reduction is made of."""
    return product(x.shape[a] for a in axes_of(axis, x.ndim))


def _share_of_extreme(g: Value, y: Value, x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The delta to the extreme element, in equal shares if there are several."""
    hit = x == _kept(y, x, axis, keepdims)
    number = hit.sum(axis=axis, keepdims=True).astype(g.dtype)
    return _kept(g, x, axis, keepdims) / number * hit


def _leave_one_out(g: Value, y: Value, x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The delta of a product: the product of the other factors, which is right at 0 and for any order."""
    axes = axes_of(axis, x.ndim)
    rest = tuple(a for a in range(x.ndim) if a not in axes)
    moved = x.transpose((*rest, *axes))
    n = count(x, axis)
    rows = reshape(moved, shape=(*moved.shape[: len(rest)], 1, n))
    others = prod(np.where(np.eye(n, dtype=bool), np.ones((), x.dtype), rows), axis=-1)
    back = tuple(int(i) for i in np.argsort((*rest, *axes)))
    return _kept(g, x, axis, keepdims) * reshape(others, shape=moved.shape).transpose(back)


def _var(x: Array, axis: Axes = None, keepdims: bool = False, correction: float = 0) -> Array:
    return np.asarray(np.var(x, axis=axis, keepdims=keepdims, ddof=correction))


def _std(x: Array, axis: Axes = None, keepdims: bool = False, correction: float = 0) -> Array:
    return np.sqrt(_var(x, axis, keepdims, correction))


def _from_mean(x: Value, axis: Axes, correction: float) -> Value:
    return (x - mean(x, axis=axis, keepdims=True)) * (1 / (count(x, axis) - correction))


def _var_rule(g: Value, y: Value, x: Value, axis: Axes = None, keepdims: bool = False, correction: float = 0) -> Value:
    return _kept(g, x, axis, keepdims) * (2 * _from_mean(x, axis, correction))


def _std_rule(g: Value, y: Value, x: Value, axis: Axes = None, keepdims: bool = False, correction: float = 0) -> Value:
    return _kept(g / _safe(y), x, axis, keepdims) * _from_mean(x, axis, correction)


def _logsumexp(x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else np.squeeze(total, axis=axis if axis is None else axes_of(axis, x.ndim))


def _softmax_rule(g: Value, y: Value, x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    finite = np.where(np.isfinite(y), y, 0)  # a row of -inf only has the delta 0
    return _kept(g, x, axis, keepdims) * np.exp(x - _kept(finite, x, axis, keepdims))


def _norm(x: Array, axis: Axes = None, keepdims: bool = False) -> Any:
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


sum_ = Operation(
    "sum",
    lambda x, axis=None, keepdims=False: np.sum(x, axis=axis, keepdims=keepdims),
    lambda g, y, x, axis=None, keepdims=False: _spread(g, x, axis, keepdims),
    reads=False,
)
mean = Operation(
    "mean",
    lambda x, axis=None, keepdims=False: np.mean(x, axis=axis, keepdims=keepdims),
    lambda g, y, x, axis=None, keepdims=False: _spread(g * (1 / count(x, axis)), x, axis, keepdims),
    reads=False,
)
prod = Operation("prod", lambda x, axis=None, keepdims=False: np.prod(x, axis=axis, keepdims=keepdims), _leave_one_out)
max_ = Operation(  # equals share the delta
    "max", lambda x, axis=None, keepdims=False: np.max(x, axis=axis, keepdims=keepdims), _share_of_extreme
)
min_ = Operation("min", lambda x, axis=None, keepdims=False: np.min(x, axis=axis, keepdims=keepdims), _share_of_extreme)
var = Operation("var", _var, _var_rule)
std = Operation("std", _std, _std_rule)  # 0 where all elements are equal
norm = Operation(  # the Euclidean norm; its derivative at 0 is 0
    "norm", _norm, lambda g, y, x, axis=None, keepdims=False: _kept(g / _safe(y), x, axis, keepdims) * x
)
logsumexp = Operation("logsumexp", _logsumexp, _softmax_rule)
cumsum: Operation = Operation(
    "cumsum",
    lambda x, axis: np.cumsum(x, axis=axis),
    lambda g, y, x, axis: flip(cumsum(flip(g, axis), axis=axis), axis),
    reads=False,
)

counts: dict[str, Operation] = {
    name: Operation(name, getattr(np, name)) for name in ("any", "all", "argmax", "argmin", "argsort", "count_nonzero")
}
"""Reductions without a derivative: a truth value, an index or a number of elements."""


def sort(x: Value, axis: int = -1, *, descending: bool = False) -> Value:
    """The elements of each row in order; equal ones keep theirs, and each delta goes to where its element came from."""
    return take_along_axis(x, argsort(x, axis, descending=descending), axis)


def argsort(x: Value, axis: int = -1, *, descending: bool = False) -> Any:
    """The indices that sort each row; equal elements keep their order."""
    values = x.array if isinstance(x, Operand) else x
    if descending:  # last to first, twice: so that equal elements keep their order
        back = np.argsort(np.flip(values, axis), axis=axis, kind="stable")
        return np.flip(values.shape[axis] - 1 - back, axis)
    return np.argsort(values, axis=axis, kind="stable")


for _function, _ours in ((np.sum, sum_), (np.mean, mean), (np.prod, prod), (np.max, max_), (np.min, min_)):
    speaks(_function, _ours)
speaks(np.var, var)
speaks(np.std, std)
speaks(np.sort, sort)
speaks(np.cumsum, lambda x, axis=None: cumsum(x, axis=axis) if axis is not None else cumsum(x.reshape(-1), axis=0))

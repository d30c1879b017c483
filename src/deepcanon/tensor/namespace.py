# mypy: disable-error-code="no-any-return"
"""The functions of the Python array API standard (version 2023.12), by its names and signatures.

https://data-apis.org/array-api/2023.12/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from deepcanon.tensor import elementwise as e
from deepcanon.tensor import layout
from deepcanon.tensor import movement as m
from deepcanon.tensor import products as p
from deepcanon.tensor import reductions as r
from deepcanon.tensor.errors import ShapeError
from deepcanon.tensor.operation import Operation, Value, speaks
from deepcanon.tensor.tensor import DType, Tensor, plain, wrap

Axes = int | tuple[int, ...] | None


def _unary(name: str, op: Operation) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor, /) -> Tensor:
        return op(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{op.name}`` of each element."
    return function


def _binary(name: str, op: Operation) -> Callable[[Tensor, Tensor], Tensor]:
    def function(x1: Tensor, x2: Tensor, /) -> Tensor:
        return op(x1, x2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{op.name}`` of each pair of elements."
    return function


abs = _unary("abs", e.absolute)
acos = _unary("acos", e.arccos)
acosh = _unary("acosh", e.arccosh)
asin = _unary("asin", e.arcsin)
asinh = _unary("asinh", e.arcsinh)
atan = _unary("atan", e.arctan)
atanh = _unary("atanh", e.arctanh)
bitwise_invert = _unary("bitwise_invert", e.steps["invert"])
ceil = _unary("ceil", e.steps["ceil"])
conj = _unary("conj", e.steps["conjugate"])
cos = _unary("cos", e.cos)
cosh = _unary("cosh", e.cosh)
exp = _unary("exp", e.exp)
expm1 = _unary("expm1", e.expm1)
floor = _unary("floor", e.steps["floor"])
isfinite = _unary("isfinite", e.steps["isfinite"])
isinf = _unary("isinf", e.steps["isinf"])
isnan = _unary("isnan", e.steps["isnan"])
log = _unary("log", e.log)
log10 = _unary("log10", e.log10)
log1p = _unary("log1p", e.log1p)
log2 = _unary("log2", e.log2)
logical_not = _unary("logical_not", e.steps["logical_not"])
negative = _unary("negative", e.negative)
positive = _unary("positive", e.positive)
sign = _unary("sign", e.steps["sign"])
signbit = _unary("signbit", e.steps["signbit"])
sin = _unary("sin", e.sin)
sinh = _unary("sinh", e.sinh)
sqrt = _unary("sqrt", e.sqrt)
square = _unary("square", e.square)
tan = _unary("tan", e.tan)
tanh = _unary("tanh", e.tanh)
trunc = _unary("trunc", e.steps["trunc"])

add = _binary("add", e.add)
atan2 = _binary("atan2", e.arctan2)
bitwise_and = _binary("bitwise_and", e.steps["bitwise_and"])
bitwise_left_shift = _binary("bitwise_left_shift", e.steps["left_shift"])
bitwise_or = _binary("bitwise_or", e.steps["bitwise_or"])
bitwise_right_shift = _binary("bitwise_right_shift", e.steps["right_shift"])
bitwise_xor = _binary("bitwise_xor", e.steps["bitwise_xor"])
copysign = _binary("copysign", e.copysign)
divide = _binary("divide", e.divide)
equal = _binary("equal", e.steps["equal"])
floor_divide = _binary("floor_divide", e.steps["floor_divide"])
greater = _binary("greater", e.steps["greater"])
greater_equal = _binary("greater_equal", e.steps["greater_equal"])
hypot = _binary("hypot", e.hypot)
less = _binary("less", e.steps["less"])
less_equal = _binary("less_equal", e.steps["less_equal"])
logaddexp = _binary("logaddexp", e.logaddexp)
logical_and = _binary("logical_and", e.steps["logical_and"])
logical_or = _binary("logical_or", e.steps["logical_or"])
logical_xor = _binary("logical_xor", e.steps["logical_xor"])
maximum = _binary("maximum", e.maximum)
minimum = _binary("minimum", e.minimum)
multiply = _binary("multiply", e.multiply)
not_equal = _binary("not_equal", e.steps["not_equal"])
pow = _binary("pow", e.power)
remainder = _binary("remainder", e.remainder)
subtract = _binary("subtract", e.subtract)


def real(x: Tensor, /) -> Tensor:
    """The real parts of complex numbers."""
    return wrap(np.real(x.array))


def imag(x: Tensor, /) -> Tensor:
    """The imaginary parts of complex numbers."""
    return wrap(np.imag(x.array))


def round(x: Tensor, /) -> Tensor:
    """The nearest integers, halves to the even one."""
    return wrap(np.round(x.array))


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Each element, or the bound that it exceeds; the bounds are constants."""
    return e.clip(x, low=plain(min), high=plain(max))


def where(condition: Tensor, x1: Tensor, x2: Tensor, /) -> Tensor:
    """Elements of x1 where the condition holds, of x2 elsewhere."""
    return e.where(condition, x1, x2)


def _cast(x: Tensor, dtype: DType) -> Tensor:
    return x if dtype is None or x.dtype == dtype else x.astype(dtype)


def sum(x: Tensor, /, *, axis: Axes = None, dtype: DType = None, keepdims: bool = False) -> Tensor:
    return _cast(r.sum_(_cast(x, dtype), axis=axis, keepdims=keepdims), dtype)


def prod(x: Tensor, /, *, axis: Axes = None, dtype: DType = None, keepdims: bool = False) -> Tensor:
    return _cast(r.prod(_cast(x, dtype), axis=axis, keepdims=keepdims), dtype)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return r.mean(x, axis=axis, keepdims=keepdims)


def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    return r.var(x, axis=axis, keepdims=keepdims, correction=correction)


def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    return r.std(x, axis=axis, keepdims=keepdims, correction=correction)


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return r.max_(x, axis=axis, keepdims=keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return r.min_(x, axis=axis, keepdims=keepdims)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType = None, include_initial: bool = False
) -> Tensor:
    """The sums of the elements up to each position; with ``include_initial`` they begin with 0."""
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(f"cumulative_sum needs an axis for a tensor of shape {x.shape}")
        axis = 0
    total = _cast(r.cumsum(_cast(x, dtype), axis=axis), dtype)
    if not include_initial:
        return total
    first = np.zeros(tuple(1 if i == axis % x.ndim else n for i, n in enumerate(x.shape)), total.dtype)
    return m.concat([wrap(first), total], axis)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return r.counts["all"](x, axis=axis, keepdims=keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    return r.counts["any"](x, axis=axis, keepdims=keepdims)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    return r.counts["argmax"](x, axis=axis, keepdims=keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    return r.counts["argmin"](x, axis=axis, keepdims=keepdims)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements of each row in order; the sort is always stable."""
    return r.sort(x, axis, descending=descending)


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort each row; the sort is always stable."""
    return wrap(r.argsort(x, axis, descending=descending))


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices, axis by axis, of the elements that are not 0."""
    return tuple(wrap(indices) for indices in np.nonzero(x.array))


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: Literal["left", "right"] = "left", sorter: Tensor | None = None
) -> Tensor:
    """The positions in the sorted x1 at which each element of x2 would be inserted."""
    return wrap(np.searchsorted(x1.array, x2.array, side, plain(sorter)))


class UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    return UniqueAll(*(wrap(part) for part in np.unique_all(x.array)))


def unique_counts(x: Tensor, /) -> UniqueCounts:
    return UniqueCounts(*(wrap(part) for part in np.unique_counts(x.array)))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    return UniqueInverse(*(wrap(part) for part in np.unique_inverse(x.array)))


def unique_values(x: Tensor, /) -> Tensor:
    return wrap(np.unique_values(x.array))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    return m.expand(x, shape=tuple(shape))


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    shape = layout.broadcast_shapes(*(x.shape for x in arrays))
    return [broadcast_to(x, shape) for x in arrays]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Tensors one after the other along an axis; ``None`` flattens them first."""
    dtype = np.result_type(*(x.dtype for x in arrays))
    return m.concat([x if x.dtype == dtype else x.astype(dtype) for x in arrays], axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Tensors of one shape side by side along a new axis."""
    return concat([m.expand_dims(x, axis) for x in arrays], axis=axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, as views."""
    return tuple(moveaxis(x, axis, 0))


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    return m.expand_dims(x, axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    return m.squeeze(x, axis)


def flip(x: Tensor, /, *, axis: Axes = None) -> Tensor:
    return m.flip(x, axis)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    return x.transpose(tuple(axes))


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Axes moved to other positions, the others in their order."""
    sources, positions = m.axes_of(source, x.ndim), m.axes_of(destination, x.ndim)
    order = [a for a in range(x.ndim) if a not in sources]
    for position, a in sorted(zip(positions, sources, strict=True)):
        order.insert(position, a)
    return x.transpose(tuple(order))


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices in the last two axes."""
    return p.matmul(x1, x2)


def matrix_transpose(x: Tensor, /) -> Tensor:
    return x.mT


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Another shape: a view where the strides allow it, a copy otherwise; ``copy=False`` refuses the copy."""
    if copy is False and layout.reshape(x.layout, shape) is None:
        raise ShapeError(f"reshape of strides {x.strides} to {shape} needs a copy, and copy=False forbids it")
    return (x.copy() if copy else x).reshape(shape)


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: Axes = None) -> Tensor:
    """The elements moved along, those that leave at the end coming in at the start."""
    shifts = shift if isinstance(shift, tuple) else (shift,)
    if axis is None:
        return m.roll(x.reshape(-1), shift=shifts, axis=(0,) * len(shifts)).reshape(x.shape)
    axes = axis if isinstance(axis, tuple) else (axis,) * len(shifts)
    return m.roll(x, shift=shifts, axis=axes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    return m.repeat(x, repeats, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    return m.tile(x, tuple(repetitions))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    return m.take(x, indices, 0 if axis is None and x.ndim == 1 else axis)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum of products over pairs of axes."""
    if isinstance(axes, int):
        axes = (range(x1.ndim - axes, x1.ndim), range(axes))
    left, right = (m.axes_of(tuple(a), x.ndim) for a, x in zip(axes, (x1, x2), strict=True))
    names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    first = names[: x1.ndim]
    second = list(names[x1.ndim : x1.ndim + x2.ndim])
    for a, b in zip(left, right, strict=True):
        second[b] = first[a]
    kept = [c for i, c in enumerate(first) if i not in left] + [c for i, c in enumerate(second) if i not in right]
    return p.einsum(f"{first},{''.join(second)}->{''.join(kept)}", x1, x2)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The inner product along an axis; the first is conjugated where it is complex."""
    left: Value = conj(x1) if x1.dtype.kind == "c" else x1
    products = moveaxis(left, axis, -1) * moveaxis(x2, axis, -1)
    return sum(products, axis=-1, dtype=products.dtype)


def astype(x: Tensor, dtype: DType, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """The same numbers in another type; without ``copy`` a tensor that has the type already is returned as it is."""
    if x.dtype == dtype:
        return x.copy() if copy else x
    return x.astype(dtype)


# What NumPy has under other names or signatures.
speaks(np.zeros_like, lambda x, dtype=None: wrap(np.zeros(x.shape, dtype or x.dtype)))
speaks(np.ones_like, lambda x, dtype=None: wrap(np.ones(x.shape, dtype or x.dtype)))
speaks(np.clip, lambda x, low, high: clip(x, low, high))
speaks(np.round, lambda x: round(x))
speaks(np.ravel, lambda x: x.reshape(-1))
speaks(np.roll, lambda x, shift, axis=None: roll(x, shift, axis=axis))
speaks(np.tile, lambda x, times: m.tile(x, times if isinstance(times, tuple) else (times,)))
speaks(np.moveaxis, lambda x, source, destination: moveaxis(x, source, destination))
speaks(np.tril, lambda x, k=0: m.triangle(x, k, lower=True))
speaks(np.triu, lambda x, k=0: m.triangle(x, k, lower=False))
speaks(np.trace, lambda x: m.diagonal(x).sum(axis=-1))
speaks(np.tensordot, lambda a, b, axes=2: tensordot(a, b, axes=axes))
speaks(np.linalg.norm, lambda x, axis=None, keepdims=False: r.norm(x, axis=axis, keepdims=keepdims))

"""Operations that move elements and do not change them, with their derivatives (the table, second part).

Their derivative moves the delta back, so each row's rule is another row of this part, and derivatives of any order
are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from deepcanon.tensor.layout import axis_number
from deepcanon.tensor.operation import Operand, Operation, Value, speaks

Array = np.ndarray[Any, Any]
Axes = int | tuple[int, ...] | None


def axes_of(axis: Axes, ndim: int) -> tuple[int, ...]:
    """The axes meant by an ``axis`` argument, counted from the front: ``None`` means all."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(axis_number(a, ndim) for a in (axis if isinstance(axis, tuple) else (axis,)))


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(place) for place in np.argsort(axes))


reshape: Operation = Operation(
    "reshape",
    lambda x, shape: x.reshape(shape),
    lambda g, y, x, shape: reshape(g, shape=x.shape),
    view=True,
    reads=False,
)
permute: Operation = Operation(
    "permute",
    lambda x, axes: x.transpose(axes),
    lambda g, y, x, axes: permute(g, axes=_inverse(axes)),
    view=True,
    reads=False,
)
expand = Operation(  # the backward pass sums over what was repeated, as after every broadcast
    "expand", lambda x, shape: np.broadcast_to(x, shape), lambda g, y, x, shape: g, view=True, reads=False
)
roll: Operation = Operation(
    "roll",
    lambda x, shift, axis: np.roll(x, shift, axis),
    lambda g, y, x, shift, axis: roll(g, shift=tuple(-s for s in shift), axis=axis),
    reads=False,
)
astype: Operation = Operation(
    "astype",
    lambda x, dtype: x.astype(dtype, copy=False),
    lambda g, y, x, dtype: astype(g, dtype=x.dtype),
    view=True,
    reads=False,
)


def _pieces(g: Value, y: Value, *xs: Value, axis: int) -> list[Value]:
    ends = [0, *accumulate(x.shape[axis] for x in xs)]
    before = (slice(None),) * axis
    return [g[(*before, slice(start, end))] for start, end in pairwise(ends)]


_concat = Operation("concat", lambda *xs, axis: np.concatenate(xs, axis), joint=_pieces, reads=False)


def concat(xs: Sequence[Value], axis: int | None = 0) -> Value:
    """Tensors one after the other along an axis; ``None`` flattens them first."""
    if axis is None:
        xs, axis = [reshape(x, shape=(-1,)) for x in xs], 0
    return _concat(*xs, axis=axis_number(axis, np.ndim(xs[0])))


def stack(xs: Sequence[Value], axis: int = 0) -> Value:
    """Tensors of one shape side by side along a new axis."""
    return concat([expand_dims(x, axis) for x in xs], axis)


def split(x: Value, sections: int | Sequence[int], axis: int = 0) -> list[Value]:
    """Views of consecutive parts: ``sections`` equal ones, or parts that begin at the given positions."""
    axis = axis_number(axis, x.ndim)
    size = x.shape[axis]
    if isinstance(sections, int):
        if sections < 1 or size % sections:
            raise ValueError(
                f"split needs a number of parts that divides the size {size} of axis {axis} (got {sections})"
            )
        sections = range(size // sections, size, size // sections)
    before = (slice(None),) * axis
    return [x[(*before, slice(start, end))] for start, end in pairwise([0, *sections, size])]


def expand_dims(x: Value, axis: int | tuple[int, ...]) -> Value:
    """New axes of size 1 at the given positions of the result."""
    axes = axis if isinstance(axis, tuple) else (axis,)
    ndim = np.ndim(x) + len(axes)
    positions = {axis_number(a, ndim) for a in axes}
    sizes = iter(x.shape)
    return reshape(x, shape=tuple(1 if i in positions else next(sizes) for i in range(ndim)))


def squeeze(x: Value, axis: Axes = None) -> Value:
    """The given axes, which have size 1, left out."""
    axes = axes_of(axis, x.ndim) if axis is not None else tuple(i for i, size in enumerate(x.shape) if size == 1)
    if any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"squeeze can only leave out axes of size 1 (got axis {axis} of shape {x.shape})")
    return reshape(x, shape=tuple(size for i, size in enumerate(x.shape) if i not in axes))


def swapaxes(x: Value, a: int, b: int) -> Value:
    """Two axes exchanged."""
    axes = list(range(x.ndim))
    axes[a], axes[b] = axes[b], axes[a]
    return permute(x, axes=tuple(axes))


def flip(x: Value, axis: Axes = None) -> Value:
    """The order along the axes reversed: a view with negative strides."""
    axes = axes_of(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))]


def is_basic(key: Any) -> bool:
    """Whether an index has only integers, slices, None and an ellipsis: it then gives a view, no position twice."""
    keys = key if isinstance(key, tuple) else (key,)
    return all(
        k is None
        or k is Ellipsis
        or isinstance(k, slice)
        or (isinstance(k, int | np.integer) and not isinstance(k, bool))
        for k in keys
    )


def _get(x: Array, key: Any) -> Any:
    y = x[key]
    if isinstance(y, np.ndarray):
        return y
    return x[(*key, ...) if isinstance(key, tuple) else (key, ...)]  # a single element as a view, not as a number


def _add_at(v: Array, shape: tuple[int, ...], key: Any) -> Array:
    out = np.zeros(shape, v.dtype)
    if is_basic(key):
        out[key] = v
    else:
        np.add.at(out, key, v)
    return out


def _set_at(x: Array, v: Any, key: Any) -> Array:
    out = x.copy()
    out[key] = v
    return out


add_at: Operation = Operation(  # zeros, to which v is added at the positions of an index
    "add_at", _add_at, lambda g, y, v, shape, key: getitem(g, key=key), reads=False
)
getitem: Operation = Operation(
    "getitem", _get, lambda g, y, x, key: add_at(g, shape=x.shape, key=key), view=True, reads=False
)
_set: Operation = (
    Operation(  # where an index names a place twice, the value of which remains is not defined, nor is its delta
        "set_at",
        _set_at,
        lambda g, y, x, v, key: _set(g, 0, key=key),
        lambda g, y, x, v, key: getitem(g, key=key),
        reads=False,
    )
)


def plain_key(key: Any) -> Any:
    """An index whose tensors are replaced by their arrays: an index has no derivative."""
    if isinstance(key, tuple):
        return tuple([plain_key(k) for k in key])
    return key.array if isinstance(key, Operand) else key


def set_at(x: Value, key: Any, value: Value) -> Value:
    """A copy of x with other values at the positions of an index; differentiable in both.

    >>> from deepcanon.tensor import tensor
    >>> set_at(tensor([1.0, 2.0, 3.0]), 1, 9.0)
    tensor([1., 9., 3.])
    """
    return _set(x, value, key=plain_key(key))


def pad(x: Value, widths: Sequence[tuple[int, int]]) -> Value:
    """Zeros before and after, as many as given for each axis."""
    shape = tuple(before + size + after for size, (before, after) in zip(x.shape, widths, strict=True))
    key = tuple(slice(before, before + size) for size, (before, _) in zip(x.shape, widths, strict=True))
    return add_at(x, shape=shape, key=key)


def take(x: Value, indices: Any, axis: int | None = None) -> Value:
    """The entries at the given positions of one axis."""
    if axis is None:
        return getitem(reshape(x, shape=(-1,)), key=plain_key(indices))
    return getitem(x, key=(*(slice(None),) * axis_number(axis, x.ndim), plain_key(indices)))


def take_along_axis(x: Value, indices: Any, axis: int = -1) -> Value:
    """The entries along one axis, with an index for each position."""
    chosen, axis = plain_key(indices), axis_number(axis, x.ndim)
    grid: list[Any] = list(np.ogrid[tuple(slice(size) for size in chosen.shape)])
    grid[axis] = chosen
    return getitem(x, key=tuple(grid))


def repeat(x: Value, repeats: Any, axis: int | None = None) -> Value:
    """Each entry along an axis several times in a row."""
    if axis is None:
        x, axis = reshape(x, shape=(-1,)), 0
    return take(x, np.repeat(np.arange(x.shape[axis]), plain_key(repeats)), axis)


def tile(x: Value, repetitions: tuple[int, ...]) -> Value:
    """The whole repeated along each axis."""
    ndim = max(x.ndim, len(repetitions))
    sizes = (1,) * (ndim - x.ndim) + x.shape
    times = (1,) * (ndim - len(repetitions)) + repetitions
    apart = reshape(x, shape=tuple(n for size in sizes for n in (1, size)))
    wide = expand(apart, shape=tuple(n for time, size in zip(times, sizes, strict=True) for n in (time, size)))
    return reshape(wide, shape=tuple(time * size for time, size in zip(times, sizes, strict=True)))


def diagonal(x: Value, offset: int = 0) -> Value:
    """The diagonals of the matrices in the last two axes."""
    rows, columns = x.shape[-2:]
    indices = np.arange(max(min(rows + min(offset, 0), columns - max(offset, 0)), 0))
    return getitem(x, key=(..., indices - min(offset, 0), indices + max(offset, 0)))


def triangle(x: Value, k: int, lower: bool) -> Value:
    """The lower or upper triangle of the matrices in the last two axes, seen from diagonal k; zeros elsewhere."""
    mask = np.tri(x.shape[-2], x.shape[-1], k=k if lower else k - 1, dtype=np.bool_)
    return np.where(mask if lower else ~mask, x, np.zeros((), x.dtype))


speaks(np.reshape, lambda x, shape: reshape(x, shape=shape))
speaks(np.transpose, lambda x, axes=None: permute(x, axes=tuple(axes or reversed(range(x.ndim)))))
speaks(np.broadcast_to, lambda x, shape: expand(x, shape=tuple(shape)))
speaks(np.concatenate, concat)
speaks(np.stack, stack)
speaks(np.split, split)
speaks(np.expand_dims, expand_dims)
speaks(np.squeeze, squeeze)
speaks(np.swapaxes, swapaxes)
speaks(np.flip, flip)
speaks(np.take, take)
speaks(np.take_along_axis, take_along_axis)
speaks(np.repeat, repeat)
speaks(np.ndim, lambda x: x.ndim)
speaks(np.shape, lambda x: x.shape)

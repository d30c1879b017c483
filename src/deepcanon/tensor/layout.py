"""Memory layouts of tensors: pure functions of shape, strides and offset.

The element with index :math:`(i_1, \\dots, i_n)`, counted from 0, lies at ``offset + sum(i * stride)``. Strides and
offset count elements, not bytes. Transposing, slicing and expanding therefore move no memory: they only give another
layout.

>>> rows = contiguous((2, 3))
>>> rows
Layout(shape=(2, 3), strides=(3, 1), offset=0)
>>> permute(rows, (1, 0))
Layout(shape=(3, 2), strides=(1, 3), offset=0)
>>> subscript(rows, (1, slice(None, None, -1)))
Layout(shape=(3,), strides=(-1,), offset=5)
>>> reshape(permute(rows, (1, 0)), (6,)) is None  # the elements do not lie in this order: it needs a copy
True
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import zip_longest
from math import prod
from typing import Any, NamedTuple, SupportsIndex

from deepcanon.tensor.errors import AxisError, ShapeError

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """The shape of a tensor, the step in memory along each axis, and the offset of its first element."""

    shape: Shape
    strides: Shape
    offset: int = 0


def contiguous_strides(shape: Shape) -> Shape:
    """The strides of elements that lie row by row: the last axis steps by 1.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def contiguous(shape: Shape) -> Layout:
    """The layout of a fresh tensor."""
    return Layout(shape, contiguous_strides(shape), 0)


def is_contiguous(layout: Layout) -> bool:
    """Whether the elements lie row by row without a gap; the stride of an axis of size 1 does not count."""
    if 0 in layout.shape:
        return True
    wanted = contiguous_strides(layout.shape)
    return all(size == 1 or is_ == to_be for size, is_, to_be in zip(layout.shape, layout.strides, wanted, strict=True))


def axis_number(axis: SupportsIndex, ndim: int) -> int:
    """An axis counted from the front; negative ones count from the back."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise AxisError(f"axis {number} is out of range: a tensor with {ndim} axes has axes {-ndim} to {ndim - 1}")
    return number % ndim


def permute(layout: Layout, axes: Sequence[int]) -> Layout:
    """The axes in another order."""
    numbers = [axis_number(axis, len(layout.shape)) for axis in axes]
    if sorted(numbers) != list(range(len(layout.shape))):
        raise ShapeError(f"permute needs each of {len(layout.shape)} axes once (got {tuple(axes)})")
    return layout._replace(
        shape=tuple(layout.shape[n] for n in numbers), strides=tuple(layout.strides[n] for n in numbers)
    )


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape that all can be expanded to: aligned at the last axis, sizes are equal or 1.

    >>> broadcast_shapes((3, 1), (5,), ())
    (3, 5)
    """
    sizes = []
    for column in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        wide = {size for size in column if size != 1}
        if len(wide) > 1:
            given = " and ".join(str(shape) for shape in shapes)
            raise ShapeError(f"shapes {given} do not broadcast: aligned at the last axis, sizes must be equal or 1")
        sizes.append(wide.pop() if wide else 1)
    return tuple(reversed(sizes))


def expand(layout: Layout, shape: Shape) -> Layout:
    """The same elements repeated along new axes and axes of size 1: these get the stride 0."""
    new = len(shape) - len(layout.shape)
    sizes = (1,) * new + layout.shape
    if new < 0 or any(size not in (1, wanted) for size, wanted in zip(sizes, shape, strict=True)):
        raise ShapeError(
            f"expand cannot make {shape} of {layout.shape}: only axes of size 1 and new first axes can grow"
        )
    strides = (0,) * new + layout.strides
    kept = tuple(
        0 if size == 1 and wanted != 1 else stride for size, stride, wanted in zip(sizes, strides, shape, strict=True)
    )
    return layout._replace(shape=shape, strides=kept)


def subscript(layout: Layout, key: Any) -> Layout:
    """Basic indexing: integers, slices, ``None`` for a new axis, and one ellipsis."""
    keys = list(key) if isinstance(key, tuple) else [key]
    taken = sum(k is not None and k is not Ellipsis for k in keys)
    if taken > len(layout.shape):
        raise AxisError(f"{taken} indices are too many for shape {layout.shape}")
    rest = [slice(None)] * (len(layout.shape) - taken)
    if Ellipsis in keys:
        place = keys.index(Ellipsis)
        keys[place : place + 1] = rest
    else:
        keys += rest
    shape, strides, offset = [], [], layout.offset
    axes = iter(zip(layout.shape, layout.strides, strict=True))
    for k in keys:
        if k is None:
            shape.append(1)
            strides.append(0)
            continue
        size, stride = next(axes)
        if isinstance(k, slice):
            start, stop, step = k.indices(size)
            count = len(range(start, stop, step))
            shape.append(count)
            strides.append(stride * step)
            offset += start * stride if count else 0
        else:
            number = operator.index(k)
            if not -size <= number < size:
                raise AxisError(f"index {number} is out of range for an axis of size {size}")
            offset += number % size * stride
    return Layout(tuple(shape), tuple(strides), offset)


def reshape(layout: Layout, shape: Shape) -> Layout | None:
    """The same elements, row by row, in another shape; ``None`` if only a copy can have it.

    Neighboring axes can be merged where the outer one steps by the size of the inner one times its stride; each
    merged run of old axes must then be cut into a run of new ones.
    """
    shape = resolve_shape(layout.shape, shape)
    if prod(shape) == 0:
        return contiguous(shape)._replace(offset=layout.offset)
    old = [(size, stride) for size, stride in zip(layout.shape, layout.strides, strict=True) if size != 1]
    strides: list[int] = []
    axis = 0
    for size, stride in _merged(old):
        run: list[int] = []
        while axis < len(shape) and prod(run) < size:
            run.append(shape[axis])
            axis += 1
        if prod(run) != size:
            return None
        strides += [stride * step for step in contiguous_strides(tuple(run))]
    strides += [1] * (len(shape) - axis)  # axes of size 1 at the end
    return Layout(shape, tuple(strides), layout.offset)


def resolve_shape(old: Shape, new: Shape) -> Shape:
    """The new shape with a single -1 filled in, so that the number of elements stays."""
    if new.count(-1) == 1:
        known = prod(size for size in new if size != -1)
        if known and prod(old) % known == 0:
            new = tuple(prod(old) // known if size == -1 else size for size in new)
    if prod(old) != prod(new) or min(new, default=0) < 0:
        raise ShapeError(f"reshape cannot make {new} of {old}: the number of elements, {prod(old)}, must stay")
    return new


def positions(layout: Layout) -> list[int]:
    """The memory positions of all elements, row by row: what strides mean, spelt out.

    >>> positions(Layout((3, 2), (1, 3)))
    [0, 3, 1, 4, 2, 5]
    """
    found = [layout.offset]
    for size, stride in zip(layout.shape, layout.strides, strict=True):
        found = [position + i * stride for position in found for i in range(size)]
    return found


def _merged(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of axes that lie in memory as one axis would: the size and the innermost stride of each."""
    merged: list[tuple[int, int]] = []
    for size, stride in axes:
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged

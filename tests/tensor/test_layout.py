"""Layouts against NumPy's strides, on shapes, slices and permutations that hypothesis thinks of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deepcanon.tensor import layout as lay
from deepcanon.tensor.errors import ShapeError
from deepcanon.tensor.layout import Layout

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
FULL = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)
quick = settings(max_examples=60, deadline=None, derandomize=True)


def array(shape: tuple[int, ...]) -> Any:
    return np.arange(int(np.prod(shape))).reshape(shape)


def read(layout: Layout, size: int) -> Any:
    """What lies at a layout in a memory that counts up."""
    return np.arange(size)[np.array(lay.positions(layout), dtype=int)].reshape(layout.shape)


@st.composite
def views(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], Layout]:
    """An array that was permuted and sliced, and its layout by our functions."""
    base = array(draw(FULL))
    axes = draw(st.permutations(range(base.ndim)))
    moved = base.transpose(axes)
    key = draw(hnp.basic_indices(moved.shape, allow_newaxis=True))
    return np.asarray(moved[(*key, ...) if isinstance(key, tuple) and Ellipsis not in key else key]), lay.subscript(
        lay.permute(lay.contiguous(base.shape), axes), key
    )


@quick
@given(SHAPES)
def test_contiguous(shape: tuple[int, ...]) -> None:
    layout = lay.contiguous(shape)
    np.testing.assert_array_equal(read(layout, array(shape).size), array(shape))
    assert lay.is_contiguous(layout)
    if 0 not in shape:
        assert layout.strides == tuple(s // array(shape).itemsize for s in array(shape).strides)


@quick
@given(views())
def test_permuting_and_slicing(view: tuple[np.ndarray[Any, Any], Layout]) -> None:
    theirs, ours = view
    np.testing.assert_array_equal(read(ours, 4**4), theirs)
    if theirs.size:
        assert lay.is_contiguous(ours) == theirs.flags.c_contiguous


@quick
@given(views(), st.data())
def test_reshape_is_a_view_exactly_where_numpy_makes_one(
    view: tuple[np.ndarray[Any, Any], Layout], data: st.DataObject
) -> None:
    theirs, ours = view
    sizes = [n for n in range(1, theirs.size + 1) if theirs.size % n == 0] or [1]
    first = data.draw(st.sampled_from(sizes))
    rest = theirs.size // first
    second = data.draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0] or [1]))
    shape = (first, second, -1) if theirs.size else (0, 3)
    layout = lay.reshape(ours, shape)
    reshaped = theirs.reshape(shape)
    if layout is None:
        assert not np.shares_memory(theirs, reshaped)
    else:
        np.testing.assert_array_equal(read(layout, 4**4), reshaped)
        assert not theirs.size or np.shares_memory(theirs, reshaped)


@quick
@given(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, max_side=4))
def test_broadcasting(shapes: hnp.BroadcastableShapes) -> None:
    assert lay.broadcast_shapes(*shapes.input_shapes) == np.broadcast_shapes(*shapes.input_shapes)
    for shape in shapes.input_shapes:
        wide = lay.expand(lay.contiguous(shape), shapes.result_shape)
        np.testing.assert_array_equal(read(wide, 4**4), np.broadcast_to(array(shape), shapes.result_shape))


@quick
@given(SHAPES, SHAPES)
def test_shapes_that_do_not_broadcast(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    try:
        wanted = np.broadcast_shapes(first, second)
    except ValueError:
        with pytest.raises(ShapeError, match="sizes must be equal or 1"):
            lay.broadcast_shapes(first, second)
    else:
        assert lay.broadcast_shapes(first, second) == wanted


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: lay.permute(x, (0, 0)), "each of 2 axes once"),
        (lambda x: lay.expand(x, (2, 4)), r"cannot make \(2, 4\) of \(2, 3\)"),
        (lambda x: lay.subscript(x, (0, 0, 0)), "3 indices are too many"),
        (lambda x: lay.subscript(x, (0, 3)), "index 3 is out of range for an axis of size 3"),
        (lambda x: lay.reshape(x, (4,)), "the number of elements, 6, must stay"),
        (lambda x: lay.reshape(x, (-1, -1)), "must stay"),
        (lambda x: lay.axis_number(2, 2), "axes -2 to 1"),
    ],
)
def test_errors_say_what_was_expected(call: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        call(lay.contiguous((2, 3)))

"""The tensor as an object: views of one storage, writes, the guard, NumPy's protocols, what it prints."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import deepcanon.tensor as dt
from deepcanon.tensor import GradientError, ShapeError, Tensor, TensorError, layout, storage


def test_importing_it_does_not_import_torch() -> None:
    code = "import sys, deepcanon.tensor, deepcanon.tensor.nn, deepcanon.tensor.chapters; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True)
@given(hnp.array_shapes(min_dims=1, max_dims=4, max_side=4), st.data())
def test_views_have_the_layout_that_the_layout_functions_say(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = dt.arange(int(np.prod(shape))).reshape(shape)
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    for view, said in [
        (x.transpose(axes), layout.permute(x.layout, axes)),
        (x[key], layout.subscript(x.layout, key)),
        (x.expand(2, *shape), layout.expand(x.layout, (2, *shape))),
    ]:
        assert view.storage is x.storage
        assert view.shape == said.shape
        np.testing.assert_array_equal(x.storage.view(said), view.numpy())
        if view.size:
            assert [s for s, n in zip(view.strides, view.shape, strict=True) if n > 1] == [
                s for s, n in zip(said.strides, said.shape, strict=True) if n > 1
            ]
            assert view.offset == said.offset


def test_strides_and_offset_equal_torchs() -> None:
    x, y = dt.arange(24).reshape(2, 3, 4), torch.arange(24).reshape(2, 3, 4)
    cases: list[Callable[[Any], Any]] = [lambda z: z, lambda z: z[1:, 1], lambda z: z[:, ::2].mT, lambda z: z[0].T]
    for f in cases:
        ours, theirs = f(x), f(y)
        assert (ours.shape, ours.strides, ours.offset) == (
            tuple(theirs.shape),
            theirs.stride(),
            theirs.storage_offset(),
        )


def test_a_write_through_a_view_reaches_the_base_and_is_counted() -> None:
    x = dt.zeros((2, 3))
    x.T[1] = 5.0
    assert x.tolist() == [[0, 5, 0], [0, 5, 0]]
    x[0] += 1
    assert x.tolist() == [[1, 6, 1], [0, 5, 0]]
    assert x.storage.version == x.T.storage.version == 3  # the operator, then Python's own x[0] = result


def test_a_cast_to_the_same_type_is_a_view() -> None:
    x = dt.zeros(2)
    x.astype(np.float64)[0] = 1.0
    assert (x.tolist(), x.storage.version) == ([1.0, 0.0], 1)
    assert x.astype(np.float32).storage is not x.storage


def test_a_write_to_a_recorded_tensor_is_differentiable() -> None:
    start, v = np.array([1.0, 2.0, 3.0]), 4.0

    def f(x: Any, value: Any) -> Any:
        y = x * x
        before = y * 1.0
        y[1] = value * 3
        y *= 2
        return (y * y + before).sum()

    ours = dt.grad(f, (0, 1))(start, v)
    x, value = torch.tensor(start, requires_grad=True), torch.tensor(v, requires_grad=True, dtype=torch.float64)
    theirs = torch.autograd.grad(f(x, value), [x, value])
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-14)


def test_a_constant_filled_with_recorded_values_becomes_recorded() -> None:
    def f(x: Any) -> Any:
        out = dt.zeros(3)
        for i in range(3):
            out[i] = x**i
        return out.sum()

    assert dt.grad(f)(2.0).item() == 5.0


def needed_by_multiply() -> tuple[Tensor, Any]:
    x = dt.tensor([1.0, 2.0], requires_grad=True)
    return x, x * x


def needed_as_a_constant() -> tuple[Tensor, Any]:
    c = dt.tensor([1.0, 2.0])
    return c, dt.tensor([3.0, 4.0], requires_grad=True) * c


def needed_through_a_view() -> tuple[Tensor, Any]:
    c = dt.tensor([1.0, 2.0])
    return c, dt.tensor([3.0], requires_grad=True) * c[1:]


def needed_result() -> tuple[Tensor, Any]:
    y = dt.tanh(dt.tensor([1.0, 2.0], requires_grad=True))
    return y.detach(), y


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (needed_by_multiply, "multiply"),
        (needed_as_a_constant, "multiply"),
        (needed_through_a_view, "multiply"),
        (needed_result, "tanh"),
    ],
)
def test_a_write_to_what_a_derivative_needs_is_refused_before_it_happens(
    make: Callable[[], tuple[Tensor, Any]], name: str
) -> None:
    x, y = make()
    before = x.tolist()
    with dt.no_grad(), pytest.raises(GradientError, match=f"this write would spoil a derivative: {name}, .*set_at"):
        x[0] = 9.0
    with dt.no_grad(), pytest.raises(GradientError, match=name):
        x[:1] *= 2
    assert x.tolist() == before
    assert x.storage.version == 0
    del y
    with dt.no_grad():
        x[0] = 9.0
    assert x.tolist() == [9.0, before[1]]


def test_a_write_to_what_only_a_sum_saw_is_allowed() -> None:
    x = dt.tensor([1.0, 2.0], requires_grad=True)
    y = (x + 1).sum()
    with dt.no_grad():
        x[0] = 5.0
    assert dt.gradients(y, [x])[0].tolist() == [1.0, 1.0]


def test_a_training_step_writes_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(node: Any) -> Any:
        raise AssertionError("the guard searched all objects")

    monkeypatch.setattr(storage, "_users", searched)
    w = dt.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    (slope,) = dt.gradients(loss, [w])
    with dt.no_grad():
        w -= 0.1 * slope
    np.testing.assert_allclose(w.numpy(), [0.8, 1.6])


def test_a_recorded_computation_does_not_write_to_a_leaf() -> None:
    x = dt.tensor([1.0], requires_grad=True)
    with pytest.raises(GradientError, match=r"is a leaf.*set_at"):
        x[0] = 2.0


def test_a_recorded_write_that_a_view_would_not_see_is_refused() -> None:
    y = dt.tensor([1.0, 2.0], requires_grad=True) * 2
    view = y[:1]
    with pytest.raises(GradientError, match=r"shares its memory.*set_at"):
        view[0] = 5.0
    with pytest.raises(GradientError, match="shares its memory"):
        y[0] = 5.0
    del view
    y[0] = 5.0
    assert y.tolist() == [5.0, 4.0]


def test_an_expanded_tensor_cannot_be_written_to() -> None:
    with pytest.raises(TensorError, match=r"x.copy\(\)"):
        dt.ones(1).expand(3)[0] = 2.0


def test_numpy_gives_an_array_over_the_same_memory_for_reading() -> None:
    x = dt.zeros(3)
    view = x.numpy()
    x[0] = 1.0
    assert view[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 2.0


def test_arrays_numbers_and_tensors_mix_and_float32_stays() -> None:
    x = dt.tensor([1.0, 2.0], np.float32)
    for y in (x * 2.0, 2 / x, np.float32(3) * x, np.ones(2, np.float32) - x, x**2, np.maximum(x, 0.5)):
        assert isinstance(y, Tensor)
        assert y.dtype == np.float32
    assert (np.arange(2) + x).tolist() == [1.0, 3.0]
    assert (np.eye(2) @ x).tolist() == [1.0, 2.0]


def test_python_numbers() -> None:
    assert float(dt.tensor(2.5)) == 2.5
    assert [10, 20, 30][dt.tensor(1)] == 20
    assert bool(dt.tensor(1.0))
    assert dt.tensor([[3]]).item() == 3
    with pytest.raises(TypeError, match="without axes"):
        bool(dt.ones(2))
    with pytest.raises(ShapeError, match="one element"):
        dt.ones(2).item()
    assert [row.tolist() for row in dt.eye(2)] == [[1, 0], [0, 1]]


def test_what_it_prints() -> None:
    x = dt.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 4.], op=multiply)"
    assert repr(dt.ones(1, dtype=dt.float32)) == "tensor([1.], dtype=float32)"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: dt.ones((3, 4)) @ dt.ones((5, 6)),
            ShapeError,
            r"matmul does not fit shapes \(3, 4\) and \(5, 6\): the last size",
        ),
        (lambda: dt.ones(3) + dt.ones(2), ShapeError, r"add does not fit shapes \(3,\) and \(2,\).*equal or 1"),
        (lambda: dt.ones(3)[5], IndexError, "getitem .*out of bounds"),
        (lambda: dt.ones(6).reshape(4, 2), ShapeError, "number of elements, 6, must stay"),
        (lambda: dt.tensor(["a"]), TensorError, "holds numbers"),
        (lambda: dt.tensor([[1.0, 2.0], [3.0]]), ShapeError, "lists of a depth are equally long"),
        (lambda: dt.asarray([[1.0], 2.0]), ShapeError, "lists of a depth are equally long"),
        (lambda: dt.tensor([1], requires_grad=True), GradientError, "only real floating-point"),
        (lambda: dt.ones(3).T, ShapeError, "transposes a matrix"),
        (lambda: dt.linalg.inv(dt.zeros((2, 2))), np.linalg.LinAlgError, "inv of shape .*[Ss]ingular"),
        (lambda: dt.cross_entropy(dt.ones((2, 3)), [0.5, 1.0]), ShapeError, "one integer label for each row"),
        (lambda: dt.conv2d(dt.ones((1, 1, 2, 2)), dt.ones((1, 1, 3, 3))), ShapeError, "does not fit into"),
        (lambda: dt.zeros(2, device="cuda"), TensorError, "'cpu' only"),
        (lambda: Tensor(), TensorError, "make a tensor with"),
    ],
)
def test_errors_read_well(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_the_graph_has_no_cycles() -> None:
    gc.collect()
    gc.disable()
    try:
        x = dt.tensor(np.ones(3), requires_grad=True)
        y = (np.tanh(x[:2]) * x[1:]).sum()
        dt.gradients(y, [x], record=True)
        node = weakref.ref(y.node)
        del y
        assert node() is None
    finally:
        gc.enable()


@pytest.mark.slow
def test_memory_does_not_grow_over_ten_thousand_steps_without_garbage_collection() -> None:
    w = dt.tensor(np.ones((3, 3)), requires_grad=True)
    x = dt.tensor(np.ones((2, 3)))

    nodes = sum(type(thing) is dt.Node for thing in gc.get_objects())

    def steps(number: int) -> None:
        for _ in range(number):
            loss = (np.tanh(x @ w.T)[:, 1:] ** 2).mean()
            (slope,) = dt.gradients(loss, [w])
            with dt.no_grad():
                w[...] = w - 1e-3 * slope

    gc.collect()
    gc.disable()
    try:
        steps(5_000)  # until Python's own free lists of small tuples are full
        before = sys.getallocatedblocks()
        steps(10_000)
        assert sys.getallocatedblocks() - before < 100
        assert sum(type(thing) is dt.Node for thing in gc.get_objects()) <= nodes + 2  # the two leaves
    finally:
        gc.enable()

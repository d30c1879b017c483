"""Derivatives: transforms against closed forms and torch, and graphs of awkward shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import deepcanon.tensor as dt
from deepcanon.tensor import GradientError, Operation, ShapeError
from deepcanon.tensor.autodiff import gradients

GENERATOR = np.random.default_rng(0)
W, X = GENERATOR.normal(size=(3, 4)), GENERATOR.normal(size=(5, 4))


def network(w: Any, x: Any) -> Any:
    """A function of two matrices that NumPy's names describe for our tensors, and torch's for theirs."""
    tanh = torch.tanh if isinstance(w, torch.Tensor) else np.tanh
    return (tanh(x @ w.mT) ** 2 * x[:, :3]).sum()


def test_grad_of_grad_of_grad_of_tanh() -> None:
    third = dt.grad(dt.grad(dt.grad(np.tanh)))
    y = np.tanh(0.3)
    assert third(0.3).item() == pytest.approx((1 - y**2) * (6 * y**2 - 2), rel=1e-14)


def test_value_and_grad_by_several_arguments() -> None:
    value, (dw, dx) = dt.value_and_grad(network, (0, 1))(W, X)
    w, x = torch.tensor(W, requires_grad=True), torch.tensor(X, requires_grad=True)
    there = network(w, x)
    assert value.item() == pytest.approx(there.item(), rel=1e-14)
    assert not value.requires_grad
    for mine, theirs in zip((dw, dx), torch.autograd.grad(there, [w, x]), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-12)


def test_jacobian_hessian_jvp_vjp_and_hvp_equal_torchs() -> None:
    x, v = X[0], GENERATOR.normal(size=4)
    tx, tv, tw = torch.tensor(x), torch.tensor(v), torch.tensor(W)

    def f(z: Any) -> Any:
        return np.exp(W @ z) * z[:3] if not isinstance(z, torch.Tensor) else torch.exp(tw @ z) * z[:3]

    def total(z: Any) -> Any:
        return (f(z) * f(z)).sum()

    functional = torch.autograd.functional
    np.testing.assert_allclose(dt.jacobian(f)(x).numpy(), functional.jacobian(f, tx).numpy(), rtol=1e-13)
    np.testing.assert_allclose(dt.hessian(total)(x).numpy(), functional.hessian(total, tx).numpy(), rtol=1e-11)
    np.testing.assert_allclose(dt.hvp(total, x, v).numpy(), functional.hvp(total, tx, tv)[1].numpy(), rtol=1e-11)
    value, slope = dt.jvp(f, [x], [v])
    np.testing.assert_allclose(value.numpy(), f(x), rtol=1e-14)
    np.testing.assert_allclose(slope.numpy(), functional.jvp(f, tx, tv)[1].numpy(), rtol=1e-12)
    value, pull = dt.vjp(f, x)
    for delta in np.eye(3):
        np.testing.assert_allclose(
            pull(delta)[0].numpy(), functional.vjp(f, tx, torch.tensor(delta))[1].numpy(), rtol=1e-12
        )


def test_an_inner_derivative_is_not_confused_with_an_outer_one() -> None:
    assert dt.grad(lambda x: x * dt.grad(lambda y: x + y)(2.0))(1.0).item() == 1.0
    assert dt.grad(lambda x: dt.grad(lambda z: z * x)(x))(3.0).item() == 1.0


def test_the_derivative_in_a_direction_can_be_differentiated() -> None:
    """d/dx of (3 x^2 v) is 6 x v."""
    assert dt.grad(lambda x: dt.jvp(lambda z: z**3, [x], [5.0])[1])(2.0).item() == pytest.approx(60.0, rel=1e-14)
    assert not dt.jvp(lambda z: z**3, [2.0], [5.0])[1].requires_grad


def test_a_derivative_inside_a_closure_is_recorded_for_hidden_parameters() -> None:
    """The penalty on the slope of a network by its input, differentiated by the network's weights."""
    w = dt.tensor(W, requires_grad=True)
    slope = dt.grad(lambda z: np.tanh(z @ w.mT).sum())(X)
    (ours,) = gradients((slope * slope).sum(), [w])
    tw, tx = torch.tensor(W, requires_grad=True), torch.tensor(X, requires_grad=True)
    (there,) = torch.autograd.grad(torch.tanh(tx @ tw.mT).sum(), [tx], create_graph=True)
    (theirs,) = torch.autograd.grad((there**2).sum(), [tw])
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-11)


def test_grad_works_inside_no_grad_and_is_not_recorded_there() -> None:
    w = dt.tensor(2.0, requires_grad=True)
    with dt.no_grad():
        slope = dt.grad(lambda x: x * x * w)(3.0)
    assert slope.item() == 12.0
    assert not slope.requires_grad


@pytest.mark.slow
def test_a_chain_of_fifty_thousand_operations() -> None:
    x = dt.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(50_000):
        y = y * 1.0001
    assert gradients(y, [x], keep=True)[0].item() == pytest.approx(1.0001**50_000, rel=1e-9)
    assert gradients(y, [x])[0].item() == pytest.approx(1.0001**50_000, rel=1e-9)
    del y  # freeing it must not recurse either


def test_a_diamond_is_visited_once() -> None:
    """Fifty doublings have 2^50 paths; each node is visited once all the same."""
    visits = []

    def rule(g: Any, y: Any, a: Any, b: Any) -> Any:
        visits.append(y)
        return g

    double = Operation("double", lambda a, b: a + b, rule, lambda g, y, a, b: g)
    x = dt.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(50):
        y = double(y, y)
    assert gradients(y, [x])[0].item() == 2.0**50
    assert len(visits) == 50


def test_what_an_output_does_not_depend_on_gets_zeros() -> None:
    x, y = dt.tensor([1.0, 2.0], requires_grad=True), dt.tensor(3.0, requires_grad=True)
    assert [d.tolist() for d in gradients(x.sum(), [x, y])] == [[1.0, 1.0], 0.0]


def test_an_inner_value_can_be_differentiated_by() -> None:
    x = dt.tensor(3.0, requires_grad=True)
    y = x * x
    assert gradients(y * y + x, [y])[0].item() == 18.0


def test_results_share_no_memory() -> None:
    x, y = dt.tensor([1.0, 2.0], requires_grad=True), dt.tensor([3.0, 4.0], requires_grad=True)
    delta = np.ones(2)
    a, b = gradients(x + y, [x, y], delta)
    a *= 5.0
    assert (a.tolist(), b.tolist(), delta.tolist()) == ([5.0, 5.0], [1.0, 1.0], [1.0, 1.0])
    (c,) = gradients(x.sum(), [x])
    c[0] = 7.0
    assert c.tolist() == [7.0, 1.0]


@pytest.mark.parametrize("lose", [lambda x: dt.tensor([x, x]), lambda x: np.array([x]), lambda x: dt.asarray([x])])
def test_a_derivative_is_not_lost_in_silence(lose: Any) -> None:
    x = dt.tensor(1.0, requires_grad=True)
    with pytest.raises(GradientError, match=r"lose its derivative; put tensors together with stack"):
        lose(x)
    with dt.no_grad():
        lose(x)


def test_types_may_differ() -> None:
    x, y = dt.tensor([1.0], np.float32, requires_grad=True), dt.tensor([2.0], requires_grad=True)
    dx, dy = gradients((x * y).sum(), [x, y])
    assert (str(dx.dtype), str(dy.dtype)) == ("float32", "float64")


@pytest.mark.parametrize("order", [1, 2])
def test_checkpoint_changes_no_number_and_forgets_what_is_inside(order: int) -> None:
    def f(w: Any, x: Any) -> Any:
        return np.tanh(x @ w.mT) ** 2

    kept: Any = lambda w, x: (f(w, x) * f(w, x)).sum()  # noqa: E731
    light: Any = lambda w, x: (dt.checkpoint(f)(w, x) * dt.checkpoint(f)(w, x)).sum()  # noqa: E731
    if order == 2:
        kept, light = (lambda w, x, h=h: (dt.grad(h)(w, x) ** 2).sum() for h in (kept, light))
    for a, b in zip(dt.grad(kept, (0, 1))(W, X), dt.grad(light, (0, 1))(W, X), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0 if order == 1 else 1e-12)  # sums in another order
    y = dt.checkpoint(f)(dt.tensor(W, requires_grad=True), X)
    assert [node.op.name for node in dt.trace(y.sum()).nodes if node.op] == ["checkpoint", "sum"]


def test_checkpoint_refuses_hidden_tensors() -> None:
    w, x = dt.tensor(2.0, requires_grad=True), dt.tensor(3.0, requires_grad=True)
    y = dt.checkpoint(lambda z: z * w)(x)
    with pytest.raises(GradientError, match=r"arguments only.*pass them"):
        gradients(y, [x])


def test_a_used_up_graph_says_so() -> None:
    x = dt.tensor(1.0, requires_grad=True)
    y = x * x
    gradients(y, [x])
    with pytest.raises(GradientError, match=r"made by multiply\) was used up.*keep=True"):
        gradients(y, [x])


def test_one_tensor_in_place_of_a_list_is_refused() -> None:
    x = dt.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GradientError, match=r"by a list of tensors .*write \[x\]"):
        gradients((x * x).sum(), x)  # type: ignore[arg-type]


def raw(x: Any) -> Any:
    return x.numpy() if isinstance(x, dt.Tensor) else x


def test_an_operation_without_second_derivative_says_so() -> None:
    cube = Operation("cube", lambda x: x**3, lambda g, y, x: raw(g) * 3 * raw(x) ** 2)
    assert dt.grad(cube)(2.0).item() == 12.0
    with pytest.raises(
        GradientError, match=r"cube has no second derivative.*write the rule with operations on tensors"
    ):
        dt.grad(dt.grad(cube))(2.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: dt.grad(lambda x: x * x)(np.ones(2)), ShapeError, r"of a scalar \(got shape \(2,\)\).*jacobian"),
        (lambda: dt.grad(lambda x: 1.0)(2.0), GradientError, "of a tensor .got float"),
        (lambda: gradients(dt.ones(()), [dt.ones(())]), GradientError, "requires_grad=True"),
        (lambda: dt.vjp(np.sin, np.ones(3))[1](np.ones(2)), ShapeError, r"has its shape, \(3,\) \(got \(2,\)\)"),
        (lambda: dt.grad(lambda x: dt.linalg.svdvals(x).sum())(np.eye(2)), GradientError, "svdvals has no derivative"),
        (lambda: dt.trace(dt.ones(())), GradientError, "recorded result"),
    ],
)
def test_errors_read_well(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()

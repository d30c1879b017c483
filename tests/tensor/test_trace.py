"""The delta on every edge: worked examples of the textbooks, and the law that edges add up."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import deepcanon.tensor as dt
from deepcanon.tensor import manual
from deepcanon.tensor.trace import Trace


def key(t: Any) -> int:
    return int(t.node.id)


def edges(trace: Trace) -> list[tuple[str, int, Any]]:
    return [
        (edge.node.op.name if edge.node.op else "", edge.argument, np.asarray(edge.delta).tolist())
        for edge in trace.edges
    ]


def test_one_function_of_one_variable() -> None:
    """The logistic function at 0 has the slope 1/4."""
    assert edges(dt.trace(dt.sigmoid(dt.tensor(0.0, requires_grad=True)))) == [("sigmoid", 0, 0.25)]


def test_a_chain_multiplies_local_slopes() -> None:
    x = dt.tensor(0.5, requires_grad=True)
    trace = dt.trace(np.exp(np.sin(x * x)))
    z1, z2 = 0.25, np.sin(0.25)
    wanted = {"exp": np.exp(z2), "sin": np.cos(z1) * np.exp(z2), "multiply": 0.5 * np.cos(z1) * np.exp(z2)}
    for name, _, delta in edges(trace):
        assert delta == pytest.approx(wanted[name], rel=1e-14)


def test_several_inputs_each_get_their_own_delta() -> None:
    """y = w x + b: the delta of x is w, that of w is x, that of b is 1."""
    x, w, b = (dt.tensor(value, requires_grad=True) for value in (3.0, 5.0, 7.0))
    trace = dt.trace(w * x + b)
    assert [trace.deltas[key(leaf)] for leaf in (x, w, b)] == [5.0, 3.0, 1.0]


def test_several_outputs_and_several_uses_are_summed() -> None:
    x = dt.tensor(2.0, requires_grad=True)
    g = x * x  # used three times
    trace = dt.trace(np.sin(g) + g * g)
    wanted = 2 * 2.0 * (np.cos(4.0) + 2 * 4.0)
    assert trace.deltas[key(x)] == pytest.approx(wanted, rel=1e-14)
    assert sum(delta for name, _, delta in edges(trace) if name in ("sin",)) == pytest.approx(np.cos(4.0))


def test_tensors_flow_back_through_the_transposed_jacobian() -> None:
    w, x = np.arange(6.0).reshape(2, 3), dt.tensor([1.0, -1.0, 2.0], requires_grad=True)
    delta = np.array([0.8, -0.6])
    assert dt.trace(w @ x, delta).deltas[key(x)].tolist() == (w.T @ delta).tolist()


def test_a_trace_prints_as_a_table() -> None:
    w, x = dt.tensor(3.0, requires_grad=True), dt.tensor([1.0, 2.0], requires_grad=True)
    lines = str(dt.trace((w * x).sum())).splitlines()
    assert lines[0].split() == ["edge", "shape", "value", "delta"]
    assert re.split(r"\s{2,}", lines[1])[1:] == ["(2,)", "[3. 6.]", "[1. 1.]"]
    assert [line.split()[-1] for line in lines[2:]] == ["3.", "3.]"]


NET = {
    "w11": 1.0, "w12": 0.5, "w21": -0.5, "w22": 1.0, "w31": 0.5, "w32": -2.0, "w41": -1.0, "w42": 0.5,
    "b1": -0.5, "b2": -0.5, "b3": 1.0, "b4": 1.0,
}  # fmt: skip


def test_the_rectified_network_with_two_hidden_units() -> None:
    """Inputs (1, 2), targets (2, 4): h = (0, 2), y = (0, 2), the mean squared error 4, and three steps of descent."""
    p = {name: dt.tensor(value, requires_grad=True) for name, value in NET.items()}
    h1 = dt.relu(1.0 * p["w11"] + 2.0 * p["w21"] + p["b1"])
    h2 = dt.relu(1.0 * p["w12"] + 2.0 * p["w22"] + p["b2"])
    y1 = dt.relu(h1 * p["w31"] + h2 * p["w41"] + p["b3"])
    y2 = dt.relu(h1 * p["w32"] + h2 * p["w42"] + p["b4"])
    error = ((y1 - 2.0) ** 2 + (y2 - 4.0) ** 2) / 2
    assert [float(v) for v in (h1, h2, y1, y2, error)] == [0, 2, 0, 2, 4]
    names = ("w31", "w42", "w22")
    slopes = dt.gradients(error, [p[name] for name in names])
    stepped = [p[name].item() - 0.01 * slope.item() for name, slope in zip(names, slopes, strict=True)]
    np.testing.assert_allclose(stepped, [0.5, 0.54, 1.02], rtol=1e-14)


def test_the_network_of_a_logistic_and_a_tangent_unit() -> None:
    """Every derivative of the two-unit network in its closed form, and one step of stochastic descent."""
    generator = np.random.default_rng(0)
    data, labels = generator.normal(size=(6, 3)), generator.normal(size=6)
    names = ("b1", "b2", "w11", "w12", "w21", "w31", "w32", "v1", "v2")
    start = dict(zip(names, generator.normal(size=9), strict=True))
    p = {name: dt.tensor(value, requires_grad=True) for name, value in start.items()}
    x1, x2, x3 = data.T

    a1 = dt.sigmoid(p["w11"] * x1 + p["w21"] * x2 + p["w31"] * x3 + p["b1"])
    a2 = np.tanh(p["w12"] * x1 + p["w32"] * x3 + p["b2"])
    f = p["v1"] * a1 + p["v2"] * a2
    loss = 0.5 * ((f - labels) ** 2).sum()
    slopes = dict(zip(names, dt.gradients(loss, list(p.values())), strict=True))

    s = 1 / (1 + np.exp(-(start["w11"] * x1 + start["w21"] * x2 + start["w31"] * x3 + start["b1"])))
    t = np.tanh(start["w12"] * x1 + start["w32"] * x3 + start["b2"])
    off = start["v1"] * s + start["v2"] * t - labels
    first, second = start["v1"] * s * (1 - s), start["v2"] * (1 - t**2)
    closed = {
        "v1": s, "v2": t, "w11": first * x1, "w21": first * x2, "w31": first * x3, "b1": first,
        "w12": second * x1, "w32": second * x3, "b2": second,
    }  # fmt: skip
    for name in names:
        assert slopes[name].item() == pytest.approx((off * closed[name]).sum(), rel=1e-12)


CHOICES: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a * b,
    lambda a, b: np.tanh(a + b),
    lambda a, b: np.sin(a) - b,
    np.maximum,
]


@pytest.mark.parametrize("seed", range(10))
def test_on_a_random_graph_the_deltas_of_the_edges_add_up_to_that_of_the_node(seed: int) -> None:
    generator = np.random.default_rng(seed)
    leaves = [dt.tensor(generator.normal(size=shape), requires_grad=True) for shape in ((3,), (1, 3), (2, 1), ())]
    values: list[Any] = list(leaves)
    for _ in range(30):
        a, b = (values[i] for i in generator.integers(len(values), size=2))
        values.append(CHOICES[generator.integers(len(CHOICES))](a, b))
    result = sum(np.tanh(v).sum() for v in values[4:])
    trace = dt.trace(result)
    for node in trace.nodes:
        outgoing = [edge.delta for edge in trace.edges if edge.parent is node]
        if node is not result.node:
            np.testing.assert_allclose(sum(outgoing), trace.deltas[node.id], rtol=1e-12, atol=1e-14)
        assert trace.deltas[node.id].shape == node.value.shape
    known = [leaf for leaf in leaves if key(leaf) in trace.deltas]
    for leaf, slope in zip(known, dt.gradients(result, known), strict=True):
        np.testing.assert_allclose(trace.deltas[key(leaf)], slope.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "activation",
    [manual.SIGMOID, manual.TANH, manual.RELU, manual.IDENTITY],
    ids=["sigmoid", "tanh", "relu", "identity"],
)
@pytest.mark.parametrize("cost", [manual.SQUARED_ERROR, manual.SOFTMAX_CROSS_ENTROPY], ids=["squared", "softmax"])
def test_by_hand_equals_automatic_delta_by_delta(activation: manual.Activation, cost: manual.Cost) -> None:
    """BP1 to BP4 beside the trace of the same network: the deltas of every z, and those of weights and biases."""
    generator = np.random.default_rng(0)
    sizes = (5, 7, 6, 4)
    layers = [
        manual.Layer(generator.normal(size=(n, m)) / 2, generator.normal(size=n), activation)
        for m, n in pairwise(sizes)
    ]
    x = generator.normal(size=(8, 5))
    target: Any = (
        generator.integers(4, size=8) if cost is manual.SOFTMAX_CROSS_ENTROPY else generator.normal(size=(8, 4))
    )
    value, slopes = manual.backpropagate(layers, x, target, cost)

    automatic: dict[Any, Any] = {
        manual.SIGMOID.value: dt.sigmoid,
        manual.TANH.value: np.tanh,
        manual.RELU.value: dt.relu,
    }
    weights = [dt.tensor(layer.w, requires_grad=True) for layer in layers]
    biases = [dt.tensor(layer.b, requires_grad=True) for layer in layers]
    a: Any = x
    zs = []
    for w, b in zip(weights, biases, strict=True):
        zs.append(dt.linear(dt.asarray(a), w, b))
        a = automatic.get(activation.value, lambda z: z)(zs[-1])
    result = cost.value(a, target)
    trace = dt.trace(result)
    assert value == pytest.approx(result.item(), rel=1e-12)
    for slope, z, w, b in zip(slopes, zs, weights, biases, strict=True):
        np.testing.assert_allclose(slope.delta, trace.deltas[key(z)], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(slope.w, trace.deltas[key(w)], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(slope.b, trace.deltas[key(b)], rtol=1e-12, atol=1e-14)

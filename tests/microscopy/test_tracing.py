"""The same microscope on our own tensors: torch's gradients, and the sum rule on random graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import deepcanon.tensor as dt
from deepcanon.core import UsageError
from deepcanon.microscopy.tracing import trace


def net(xp: Any, x: Any, w: Any, b: Any, v: Any) -> Any:
    hidden = xp.tanh(x @ w + b)
    return ((hidden @ v) ** 2).mean() + (hidden * hidden).sum() * 0.1


def test_every_delta_is_torch_s() -> None:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape) for shape in ((2, 3), (3, 4), (4,), (4, 2))]
    graph = trace(lambda *args: net(dt, *args), *arrays)
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    end = net(torch, *tensors)
    end.backward()
    assert graph.loss == pytest.approx(end.item())
    for i, tensor in enumerate(tensors):
        assert tensor.grad is not None
        np.testing.assert_allclose(graph.find(f"x{i + 1}").delta, tensor.grad.numpy(), rtol=1e-12)
    assert {edge.verdict.status for edge in graph.edges} == {"agrees"}
    assert all(check.holds for check in graph.checks), graph.checks


@pytest.mark.parametrize("seed", range(8))
def test_the_deltas_out_of_a_node_add_up_on_random_graphs(seed: int) -> None:
    random = np.random.default_rng(seed)

    def tangled(x: dt.Tensor, y: dt.Tensor) -> dt.Tensor:
        values = [x, y]
        steps: list[Any] = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: dt.sin(a), lambda a, b: a - 0.5 * b]
        for _ in range(12):
            a, b = (values[i] for i in random.integers(0, len(values), 2))
            values.append(steps[random.integers(4)](a, b))
        return sum(values[1:], values[0]).sum()

    graph = trace(tangled, random.standard_normal(3), random.standard_normal((2, 3)))
    assert graph.mismatches == []
    assert all(check.holds for check in graph.checks), graph.checks
    for node in graph.nodes:
        leaving = [edge.delta for edge in graph.out_of(node) if edge.delta is not None]
        if leaving:
            np.testing.assert_allclose(sum(leaving), node.delta, rtol=1e-12, atol=1e-14)


def test_a_tensor_the_function_holds_is_a_parameter_and_an_array_a_constant() -> None:
    weight = dt.tensor(np.array([1.0, 2.0]), requires_grad=True)
    graph = trace(lambda x: (x * weight * np.array([3.0, 4.0])).sum(), [5.0, 6.0])
    np.testing.assert_allclose(graph.find("parameter").delta, [15.0, 24.0])
    assert graph.find("constant").deltas == (None,)


def test_the_jacobian_of_one_operation() -> None:
    graph = trace(lambda x: dt.tanh(x).sum(), [0.3, -1.2])
    (edge,) = graph.into(graph.find("tanh"))
    np.testing.assert_allclose(graph.jacobian(edge), np.diag(1 - np.tanh([0.3, -1.2]) ** 2), rtol=1e-12)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match=r"one number, got one of shape \(2,\)"):
        trace(lambda x: x * 2, [1.0, 2.0])
    with pytest.raises(UsageError, match="does not depend on the inputs"):
        trace(lambda x: dt.tensor(1.0), [1.0, 2.0])

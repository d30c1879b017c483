"""What is recorded: operations in place, views, modules that are called twice, functions torch writes in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deepcanon.microscopy.compute_graph import ComputeGraph
from deepcanon.microscopy.microscope import microscope


class Written(nn.Module):
    """A module around a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.function(x)
        return out


def seen(function: Any, x: Tensor) -> ComputeGraph:
    """The graph of a function, held against torch's own gradient of it."""
    graph = microscope(Written(function), x)
    assert all(check.holds for check in graph.checks), graph.checks
    wide = x.double().requires_grad_()
    (gradient,) = torch.autograd.grad(function(wide.clone()).sum(), wide)
    np.testing.assert_allclose(graph.find("x").delta, gradient, rtol=1e-12)
    return graph


def in_place(x: Tensor) -> Tensor:
    y = x * 2
    y.mul_(x).add_(1)
    return y.tanh_()


def into_entries(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[0] = x[1] * 3
    y[1, 1:] = x[0, 1:].exp()
    return y * x


def through_a_view(x: Tensor) -> Tensor:
    y = x.clone()
    row = y[1]
    row.mul_(x[0])
    other = y[:, 0]
    row.sin_()
    return y.square() + other.unsqueeze(1)


def added_to_a_column(x: Tensor) -> Tensor:
    y = x * 1
    y[:, 1] += x[:, 0] ** 2
    return y.exp()


@pytest.mark.parametrize("function", [in_place, into_entries, through_a_view, added_to_a_column])
def test_writing_in_place_makes_a_new_value(function: Any) -> None:
    seen(function, torch.randn(2, 3, generator=torch.Generator().manual_seed(0)))


def test_a_value_before_it_is_overwritten_is_still_shown() -> None:
    graph = seen(in_place, torch.full((2,), 0.5))
    values = [float(node.values[0].ravel()[0]) for node in graph.nodes if node.name in ("mul", "mul_", "add_")]
    assert values == [1.0, 0.5, 1.5]


def test_functions_that_torch_writes_in_python_are_opened() -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    graph = microscope(attention, (torch.randn(1, 3, 4),) * 3, lambda out: out[0].square().sum())
    names = {node.name for node in graph.nodes}
    assert {"bmm", "softmax", "linear"} <= names  # the averaged weights are asked for, so nothing is fused
    assert all(check.holds for check in graph.checks)


def test_a_module_called_twice_is_two_groups() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.inner(self.inner(x))
            return out

    graph = microscope(Twice(), torch.randn(1, 2))
    assert [group.name for group in graph.groups if group.parent is None] == ["inner", "inner (call 2)"]
    weight = graph.find("inner.0.weight")
    assert len(graph.out_of(weight)) == 2
    assert all(check.holds for check in graph.checks)


def test_the_line_and_the_call_are_recorded() -> None:
    graph = microscope(Written(lambda x: x.transpose(0, 1).softmax(dim=-1)), torch.randn(2, 3))
    node = graph.find("transpose")
    assert node.where.startswith("test_capture.py:")
    assert graph.tape.records[node.id].call == "transpose(a, 0, 1)"
    assert graph.tape.records[graph.find("softmax").id].call == "softmax(a, dim=-1)"


def test_a_recurrent_net_and_a_recursive_function_are_recorded() -> None:
    lstm = nn.LSTM(3, 4, batch_first=True)
    graph = microscope(lstm, torch.randn(2, 5, 3), lambda out: out[0].square().mean())
    assert all(check.holds for check in graph.checks)
    assert len(graph.into(graph.find("lstm"))) == 7  # x, two states, four parameters
    complicated = seen(lambda x: torch.fft.rfft(x).abs().pow(2), torch.randn(8))
    assert complicated.mismatches == []


def test_what_only_lends_its_shape_is_no_source() -> None:
    graph = seen(lambda x: x + torch.zeros_like(x), torch.randn(3))
    assert graph.into(graph.find("zeros_like")) == []

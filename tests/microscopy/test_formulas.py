"""The rule of an edge with its numbers: the terms add up to the delta, unless the backward is wrong."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from deepcanon.microscopy.formulas import RULES, filled
from deepcanon.microscopy.microscope import microscope


def test_the_terms_of_the_largest_delta_add_up_to_it() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2))
    graph = microscope(net, torch.randn(2, 3), lambda y: nn.functional.cross_entropy(y, torch.tensor([0, 1])))
    for edge in graph.edges:
        if edge.delta is not None:
            rule = filled(graph, edge)
            assert rule["delta"]["sum"] == pytest.approx(rule["delta"]["given"], rel=1e-6)
            assert edge.delta[tuple(rule["delta"]["entry"])] == rule["delta"]["given"]
            assert abs(rule["delta"]["given"]) == pytest.approx(abs(edge.delta).max())


def test_an_entry_shows_an_entrywise_operation() -> None:
    graph = microscope(nn.Tanh(), torch.tensor([0.5, -2.0]))
    rule = filled(graph, graph.edges[0])
    assert rule["forward"] == "y = tanh a"
    assert rule["backward"] == "δa = δy · (1 − y²)"  # noqa: RUF001
    assert rule["value"] == "tanh(-2) = -0.964"


def test_two_tensors_are_distinguished() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return (x * y - 3).sum()

    graph = microscope(Scaled(), (torch.tensor([2.0]), torch.tensor([5.0])))
    rules = [filled(graph, edge) for edge in graph.edges]
    assert [rule["backward"] for rule in rules[:2]] == ["δa = δy · b", "δb = δy · a"]
    assert rules[0]["value"] == "mul(2, 5) = 10"
    assert rules[2]["value"] == "sub(10, 3) = 7"


def test_an_unknown_operation_has_the_general_rule() -> None:
    assert "cosh" not in RULES
    graph = microscope(nn.Identity(), torch.tensor([0.5]), lambda y: y.cosh().sum())
    assert filled(graph, graph.edges[0])["backward"] == "δa = (∂y/∂a)ᵀ δy"

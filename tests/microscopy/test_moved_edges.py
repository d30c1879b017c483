"""Movements: an edit moves the edges that depend on it, by what a derivation by hand gives, and no other."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import deepcanon as dc
from deepcanon.microscopy.microscope import microscope
from deepcanon.microscopy.moved_edges import movements
from deepcanon.microscopy.page import as_data


def test_an_edit_of_one_weight_moves_what_is_after_it_and_the_deltas_before() -> None:
    network = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    first, second = network.parameters()
    with torch.no_grad():
        first.fill_(2.0)
        second.fill_(3.0)
    x = torch.tensor([[5.0]])
    before = microscope(network, x)
    with torch.no_grad():
        second.fill_(4.5)
    after = microscope(network, x)
    found = [
        (before.nodes[before.edge(each.edge).source].name, each.value, each.delta) for each in movements(before, after)
    ]
    # y = w2 h and h = w1 x: the value of w2 moves, and y by it; by the chain rule all deltas before it move, too
    assert found == [("x", 0, 0.5), ("0.weight", 0, 0.5), ("linear", 0, 0.5), ("1.weight", 0.5, 0), ("linear", 0.5, 0)]
    data = as_data(after, before)
    assert data["edited"]
    assert [edge["id"] for edge in data["edges"] if edge["moved"]] == [each.edge for each in movements(before, after)]


def test_no_edit_moves_nothing_and_another_computation_is_refused() -> None:
    layer, x = nn.Linear(2, 2), torch.ones(1, 2)
    graph = microscope(layer, x)
    assert movements(graph, microscope(layer, x)) == []
    with pytest.raises(dc.UsageError, match="computes something else"):
        movements(graph, microscope(nn.Sequential(layer, nn.ReLU()), x))


def test_a_value_that_was_zero_moves_by_its_new_size() -> None:
    layer, x = nn.Linear(1, 1), torch.ones(1, 1)
    with torch.no_grad():
        layer.bias.zero_()
    before = microscope(layer, x)
    with torch.no_grad():
        layer.bias.fill_(0.25)
    found = {before.nodes[before.edge(each.edge).source].name: each for each in movements(before, microscope(layer, x))}
    assert math.isclose(found["bias"].value, 1.0)

"""Shares and mean frequencies against closed forms: a wave on a ring, and classes that are components."""

import math

import pytest
import torch

from deepcanon.core import Batch, Graph, GraphBatch, Graphs, UsageError
from deepcanon.data import load_data
from deepcanon.insights.graph_spectrum import graph_spectrum


def ring(nodes: int) -> Graph:
    around = torch.arange(nodes)
    half = torch.stack([around, around.roll(1)])
    return Graph(torch.cat([half, half.flip(0)], 1), nodes)


def on(graph: Graph, x: torch.Tensor, y: torch.Tensor) -> GraphBatch:
    return GraphBatch(x=x, y=y, mask=torch.ones(graph.nodes, dtype=torch.bool), graph=graph)


@pytest.mark.parametrize("wave", [1, 3])
def test_a_wave_on_a_ring_has_its_frequency(wave: int) -> None:
    angle = 2 * math.pi * wave * torch.arange(20, dtype=torch.float64) / 20
    found = graph_spectrum(on(ring(20), angle.cos().unsqueeze(1), torch.arange(20) % 2)).numbers
    frequency = 1 - math.cos(2 * math.pi * wave / 20)
    assert found["mean_frequency"]["features"] == pytest.approx(frequency, abs=1e-9)
    for value, share in zip(found["frequencies"], found["shares"]["features"], strict=True):
        if abs(value - frequency) > 1e-9:
            assert share == pytest.approx(float(value > frequency), abs=1e-9)
    assert found["mean_frequency"]["classes"] == pytest.approx(2)  # every node unlike its neighbors
    assert found["shares"]["classes"][-1] == pytest.approx(1)


def test_classes_that_are_components_have_the_frequency_zero() -> None:
    graph = Graph.union([ring(5), ring(5)])
    y = graph.membership()
    finding = graph_spectrum(on(graph, torch.randn(10, 2), y))
    assert finding.numbers["components"] == 2
    assert finding.numbers["mean_frequency"]["classes"] == pytest.approx(0, abs=1e-12)
    assert "low: alike at neighbors" in " ".join(finding.says)


def test_large_graphs_many_graphs_and_other_data() -> None:
    large = graph_spectrum(on(ring(600), torch.randn(600, 1), torch.zeros(600).long()), frequencies=7).numbers
    assert len(large["frequencies"]) == 7
    many = graph_spectrum(Graphs(torch.randn(12, 1), Graph.union([ring(3), ring(9)]))).numbers
    assert many["nodes"] == 9
    assert graph_spectrum(load_data("karate").train).numbers["mean_frequency"]["classes"] < 0.5
    with pytest.raises(UsageError, match="a graph is needed"):
        graph_spectrum(Batch(torch.zeros(3, 2)))

"""The graph isomorphism network is PyG's on the same weights, and counts what a mean cannot."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import DataError, Graph, GraphBatch
from deepcanon.data import load_data
from deepcanon.models.graphs.gin import GIN
from deepcanon.models.graphs.sage import Sage


def karate() -> GraphBatch:
    batch: GraphBatch = load_data("karate").train
    return replace(batch, x=batch.x.double())


def test_the_network_is_pygs_on_the_same_weights() -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    batch = karate()
    torch.manual_seed(0)
    model = GIN(features=34, classes=2, hidden=(8, 5)).double().eval()
    h = batch.x
    convs: Any = model.convs
    for number, ours in enumerate(convs[:-1]):
        with torch.no_grad():
            ours.epsilon.fill_(0.25 * number)
        h = pyg.GINConv(ours.mlp, eps=0.25 * number).double()(h, batch.graph.edge_index).relu()
    wanted = torch.nn.functional.linear(h, convs[-1].weight, convs[-1].bias)
    torch.testing.assert_close(model(*batch.inputs), wanted, rtol=0, atol=1e-10)
    sparse = replace(batch, x=batch.x.to_sparse_coo())
    torch.testing.assert_close(model(*sparse.inputs), wanted, rtol=0, atol=1e-10)


def stars() -> GraphBatch:
    """Stars of two, three and four leaves, all nodes alike: the class of the centers is the number of leaves."""
    graphs: list[Graph] = []
    centers: list[int] = []
    for number in range(30):
        leaves = 2 + number % 3
        centers.append(sum(graph.nodes for graph in graphs))
        spokes = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
        graphs.append(Graph(torch.cat([spokes, spokes.flip(0)], 1), leaves + 1))
    union = Graph.union(graphs)
    mask = torch.zeros(union.nodes, dtype=torch.bool).index_fill(0, torch.tensor(centers), True)
    y = torch.zeros(union.nodes, dtype=torch.long).index_copy(0, torch.tensor(centers), torch.arange(30) % 3)
    return GraphBatch(x=torch.ones(union.nodes, 1), y=y, mask=mask, graph=Graph(union.edge_index, union.nodes))


@pytest.mark.slow
def test_sums_count_the_neighbors_and_means_do_not() -> None:
    batch, right = stars(), {}
    for kind in (GIN, Sage):
        torch.manual_seed(0)
        model = kind(features=1, classes=3, hidden=(16, 16), dropout=0.0)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(200):
            optimizer.zero_grad()
            model.loss(batch)["nll"].backward()
            optimizer.step()
        right[model.name()] = float(model.metrics(batch)["accuracy"])
    assert right["gin"] == 1
    assert right["sage"] == pytest.approx(1 / 3)  # all centers look the same to it


def test_features_of_edges_go_into_the_messages() -> None:
    graph = Graph(torch.tensor([[0, 1], [1, 0]]), 2, edge_features=torch.eye(2))
    model = GIN(features=1, classes=2, edge_features=2).eval()
    other = replace(graph, edge_features=graph.edge_features.flip(0) if graph.edge_features is not None else None)
    assert not torch.allclose(model(torch.ones(2, 1), graph), model(torch.ones(2, 1), other))
    with pytest.raises(DataError, match="takes no features per edge, the graph has 2"):
        GIN(features=1, classes=2)(torch.ones(2, 1), graph)


@pytest.mark.slow
def test_it_parts_the_karate_club() -> None:
    torch.manual_seed(0)
    result = dc.fit(GIN(features=34, classes=2), load_data("karate"), quiet=True, epochs=100)
    assert result.test["accuracy"] >= 0.8

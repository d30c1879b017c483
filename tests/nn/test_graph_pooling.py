"""Pooling by clusters is PyG's dense DiffPool graph by graph; a global node joins all nodes of its own graph."""

from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.core import DataError, Graph, UsageError
from deepcanon.nn import ClusterPool, GlobalNode, pooled


def union() -> tuple[Graph, Tensor]:
    random = torch.Generator().manual_seed(0)
    graphs = []
    for nodes in (5, 1, 8):
        half = torch.randint(nodes, (2, 2 * nodes), generator=random)
        half = half[:, half[0] < half[1]].unique(dim=1)
        graphs.append(Graph(torch.cat([half, half.flip(0)], 1), nodes))
    both = Graph.union(graphs)
    return both, torch.randn(both.nodes, 4, generator=random, dtype=torch.float64)


def test_clusters_are_pygs_diffpool() -> None:
    pyg: Any = pytest.importorskip("torch_geometric", reason="PyTorch Geometric is not installed")
    from torch_geometric.nn.dense import dense_diff_pool

    graph, h = union()
    shares = torch.randn(graph.nodes, 3, dtype=torch.float64)
    x, a = pooled(h, shares.softmax(-1), graph)
    owner = graph.membership()
    dense, mask = pyg.utils.to_dense_batch(h, owner)
    scores, _ = pyg.utils.to_dense_batch(shares, owner)
    adjacency = pyg.utils.to_dense_adj(graph.edge_index, owner).double()
    wanted_x, wanted_a, _, _ = dense_diff_pool(dense, adjacency, scores, mask)
    torch.testing.assert_close(x, wanted_x, rtol=0, atol=1e-12)
    torch.testing.assert_close(a, wanted_a, rtol=0, atol=1e-12)


def test_clusters_keep_the_number_of_nodes_and_the_weight_of_edges() -> None:
    graph, h = union()
    x, a = ClusterPool(4, 5).double()(torch.ones_like(h), graph)
    torch.testing.assert_close(x[:, :, 0].sum(1), torch.tensor([5.0, 1.0, 8.0], dtype=torch.float64))
    counts = graph.membership()[graph.edge_index[0]].bincount(minlength=3).double()
    torch.testing.assert_close(a.sum((1, 2)), counts)


def test_a_global_node_reaches_all_nodes_of_its_graph_and_no_other() -> None:
    graph, h = union()
    node = GlobalNode(4, 6).double()
    other = h.clone()
    other[0] += 1
    before, _ = node(h, h.new_zeros(3, 6), graph)
    after, _ = node(other, h.new_zeros(3, 6), graph)
    moved = (after - before).abs().amax(1) > 1e-9
    assert moved.tolist() == [True] * 5 + [False] * 9


def test_wrong_arguments_are_named() -> None:
    graph, h = union()
    with pytest.raises(UsageError, match="clusters must be at least 2"):
        ClusterPool(4, 1)
    with pytest.raises(DataError, match="graphs of 14 nodes need as many rows, got 3 and 14"):
        pooled(h[:3], h, graph)

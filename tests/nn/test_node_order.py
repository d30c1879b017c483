"""Breadth-first order: that of networkx, from a node of the largest degree on."""

import networkx as nx
import pytest
import torch

from deepcanon.nn.node_order import breadth_first


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_order_of_networkx(seed: int) -> None:
    graph: nx.Graph[int] = nx.gnp_random_graph(9, 0.3, seed=seed)
    graph = graph.subgraph(max(nx.connected_components(graph), key=len))
    graph = nx.convert_node_labels_to_integers(graph)
    adjacency = torch.from_numpy(nx.to_numpy_array(graph)).unsqueeze(0)
    order = breadth_first(adjacency, torch.tensor([graph.number_of_nodes()]))[0].tolist()
    first = max(graph, key=lambda node: (graph.degree[node], -node))

    def by_degree(nodes: list[int]) -> list[int]:
        return sorted(nodes, key=lambda node: (-graph.degree[node], node))

    edges = nx.bfs_edges(graph, first, sort_neighbors=by_degree)
    assert order == [first, *(node for _, node in edges)]


def test_padding_comes_last_and_parts_begin_anew() -> None:
    pairs = torch.zeros(1, 6, 6)
    for a, b in ((0, 1), (2, 3), (3, 4)):
        pairs[0, a, b] = pairs[0, b, a] = 1
    assert breadth_first(pairs, torch.tensor([5]))[0].tolist() == [3, 2, 4, 0, 1, 5]

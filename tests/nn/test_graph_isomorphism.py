"""Graph isomorphism layers are PyG's; a sum tells apart what means do not."""

from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.core import DataError, Graph
from deepcanon.nn import AttentionConv, GraphConv, GraphIsomorphism, SpectralConv, neighbor_max


def some_graph(edge_features: int | None = None) -> tuple[Tensor, Graph]:
    random = torch.Generator().manual_seed(0)
    edges = torch.randint(9, (2, 20), generator=random)
    features = None if edge_features is None else torch.randn(20, edge_features, generator=random)
    return torch.randn(9, 3, generator=random, dtype=torch.float64), Graph(edges, 9, edge_features=features)


def stirred(layer: GraphIsomorphism) -> GraphIsomorphism:
    with torch.no_grad():
        layer.epsilon.fill_(0.3)
    return layer.double()


def test_the_layer_is_pygs_on_the_same_weights() -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    x, graph = some_graph()
    layer = stirred(GraphIsomorphism(3, 4))
    theirs = pyg.GINConv(layer.mlp, eps=0.3).double()
    torch.testing.assert_close(layer(x, graph), theirs(x, graph.edge_index), rtol=0, atol=1e-12)


def test_the_layer_with_features_of_edges_is_pygs_on_the_same_weights() -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    x, graph = some_graph(edge_features=2)
    layer = stirred(GraphIsomorphism(3, 4, edge_features=2))
    theirs = pyg.GINEConv(layer.mlp, eps=0.3, edge_dim=2).double()
    assert layer.of_edges is not None
    theirs.lin.load_state_dict(layer.of_edges.state_dict())
    assert graph.edge_features is not None
    wanted = theirs(x, graph.edge_index, graph.edge_features.double())
    torch.testing.assert_close(layer(x, graph), wanted, rtol=0, atol=1e-12)


def test_weights_of_edges_count_in_both_kinds_of_messages() -> None:
    for edge_features in (None, 2):
        x, graph = some_graph(edge_features)
        layer = stirred(GraphIsomorphism(3, 4, edge_features=edge_features))
        twice = Graph(torch.cat([graph.edge_index] * 2, 1), 9, None, (), _twice(graph.edge_features))
        weighted = Graph(graph.edge_index, 9, torch.full((20,), 2.0), (), graph.edge_features)
        torch.testing.assert_close(layer(x, weighted), layer(x, twice), rtol=0, atol=1e-12)


def _twice(features: Tensor | None) -> Tensor | None:
    return None if features is None else torch.cat([features, features])


def test_sums_count_neighbors_which_means_do_not() -> None:
    """A node with two and a node with three neighbors, all alike."""
    edges = torch.tensor([[1, 2, 4, 5, 6], [0, 0, 3, 3, 3]])
    x = torch.ones(7, 3, dtype=torch.float64)
    torch.manual_seed(0)
    gin, mean = stirred(GraphIsomorphism(3, 4)), GraphConv(3, 4, operator="random_walk").double()
    assert torch.equal(mean(x, edges)[0], mean(x, edges)[3])
    assert not torch.allclose(gin(x, edges)[0], gin(x, edges)[3])


def test_wrong_inputs_are_named() -> None:
    x, graph = some_graph()
    with pytest.raises(DataError, match="takes 2 features per node, got 3"):
        GraphIsomorphism(2, 4).double()(x, graph)
    with pytest.raises(DataError, match="takes 2 features per edge, the graph has none"):
        GraphIsomorphism(3, 4, edge_features=2).double()(x, graph)
    with pytest.raises(DataError, match="takes no features per edge, the graph has 2"):
        GraphIsomorphism(3, 4).double()(*some_graph(edge_features=2))


@pytest.mark.parametrize(
    "layer",
    [GraphConv(3, 4), AttentionConv(3, 4), SpectralConv(3, 4), GraphIsomorphism(3, 4), neighbor_max],
    ids=lambda layer: getattr(layer, "__name__", type(layer).__name__),
)
def test_no_layer_ignores_the_features_of_edges(layer: Any) -> None:
    x, graph = some_graph(edge_features=2)
    layer(x.float(), Graph(graph.edge_index, graph.nodes))
    with pytest.raises(DataError, match="takes no features per edge, the graph has 2"):
        layer(x.float(), graph)

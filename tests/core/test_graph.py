"""The operators of a graph against printed matrices, networkx and scipy; unions are block-diagonal."""

from typing import Any, get_args

import networkx
import numpy as np
import pytest
import scipy.sparse.csgraph
import torch
from torch import Tensor

from deepcanon.core import DataError, Graph, GraphBatch, Operator, Sparse, UsageError

PATH = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), nodes=3)


def of_networkx(source: Any) -> Graph:
    edges = torch.tensor([(a, b) for a, b in source.to_directed().edges]).T
    weight = torch.tensor([source.edges[a, b].get("weight", 1.0) for a, b in edges.T.tolist()], dtype=torch.float64)
    return Graph(edges, source.number_of_nodes(), weight)


def random_graph() -> Any:
    """Weighted, with two isolated nodes."""
    graph = networkx.gnp_random_graph(12, 0.3, seed=1)
    graph.remove_edges_from([edge for edge in graph.edges if 5 in edge or 11 in edge])
    random = np.random.default_rng(0)
    networkx.set_edge_attributes(graph, {edge: float(random.uniform(0.5, 2)) for edge in graph.edges}, "weight")
    return graph


def dense(graph: Graph, name: Operator) -> Tensor:
    return graph.operator(name, torch.float64).to_dense()


def test_the_laplacians_of_a_path_of_three_nodes() -> None:
    root = 1 / np.sqrt(2)
    assert PATH.degrees().tolist() == [1, 2, 1]
    assert dense(PATH, "adjacency").tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert dense(PATH, "laplacian").tolist() == [[1, -1, 0], [-1, 2, -1], [0, -1, 1]]
    assert dense(PATH, "random_walk_laplacian").tolist() == [[1, -1, 0], [-0.5, 1, -0.5], [0, -1, 1]]
    printed = [[1, -root, 0], [-root, 1, -root], [0, -root, 1]]
    np.testing.assert_allclose(dense(PATH, "symmetric_laplacian"), printed, rtol=1e-15)


def test_the_laplacian_measures_how_a_signal_changes_along_the_edges() -> None:
    laplacian = PATH.operator("laplacian", torch.float64)
    for signal, printed in (((1, 1, 1), 0), ((-1, 0, 1), 2), ((1, -2, 1), 18)):
        f = torch.tensor(signal, dtype=torch.float64)
        assert f @ (laplacian @ f) == printed
    graph = of_networkx(random_graph())
    f = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    source, target = graph.edge_index
    halved = 0.5 * (graph.weights() * (f[source] - f[target]).square()).sum()
    torch.testing.assert_close(f @ (graph.operator("laplacian", torch.float64) @ f), halved)


def test_the_spectrum_of_a_path_and_of_parts() -> None:
    values, vectors = torch.linalg.eigh(dense(PATH, "laplacian"))
    np.testing.assert_allclose(values, [0, 1, 3], atol=1e-14)
    printed = np.array([[3**-0.5, 2**-0.5, 6**-0.5], [3**-0.5, 0, -2 * 6**-0.5], [3**-0.5, -(2**-0.5), 6**-0.5]])
    np.testing.assert_allclose(vectors * vectors[0].sign(), printed, atol=1e-14)
    source = random_graph()
    graph, parts = of_networkx(source), networkx.number_connected_components(source)
    for name in ("laplacian", "symmetric_laplacian"):
        spectrum = torch.linalg.eigvalsh(dense(graph, name))
        assert int((spectrum.abs() < 1e-12).sum()) == parts
        assert spectrum.min() > -1e-12
    trace = dense(graph, "laplacian").trace()
    torch.testing.assert_close(trace, graph.weights().sum())  # each edge stands in both directions


def test_the_operator_of_gcn_on_a_path() -> None:
    # With loops the degrees are 2, 3, 2.
    printed = [[1 / 2, 6**-0.5, 0], [6**-0.5, 1 / 3, 6**-0.5], [0, 6**-0.5, 1 / 2]]
    np.testing.assert_allclose(dense(PATH, "gcn"), printed, rtol=1e-15)


def test_laplacians_are_those_of_networkx_and_scipy_with_isolated_nodes() -> None:
    source = random_graph()
    graph, adjacency = of_networkx(source), networkx.to_numpy_array(source)
    np.testing.assert_allclose(dense(graph, "adjacency"), adjacency)
    np.testing.assert_allclose(dense(graph, "laplacian"), networkx.laplacian_matrix(source).toarray(), atol=1e-14)
    normalized = networkx.normalized_laplacian_matrix(source).toarray()
    np.testing.assert_allclose(dense(graph, "symmetric_laplacian"), normalized, atol=1e-14)
    scipys = scipy.sparse.csgraph.laplacian(adjacency, normed=True)
    np.testing.assert_allclose(dense(graph, "symmetric_laplacian"), scipys, atol=1e-14)
    degrees = adjacency.sum(1)
    walk = np.divide(adjacency, degrees[:, None], out=np.zeros_like(adjacency), where=degrees[:, None] > 0)
    np.testing.assert_allclose(dense(graph, "random_walk"), walk, atol=1e-14)
    np.testing.assert_allclose(dense(graph, "random_walk_laplacian"), np.diag(degrees > 0) - walk, atol=1e-14)
    np.testing.assert_allclose(dense(graph, "symmetric"), np.diag(degrees > 0) - normalized, atol=1e-14)


@pytest.mark.parametrize("name", get_args(Operator))
def test_operators_of_undirected_graphs_are_symmetric_and_kept(name: Operator) -> None:
    graph = of_networkx(random_graph())
    matrix = graph.operator(name)
    assert matrix.dtype == torch.float32
    assert matrix is graph.operator(name)
    assert (matrix.T is matrix) == ("random_walk" not in name)
    assert torch.isfinite(matrix.values).all()


def test_a_directed_edge_carries_from_its_source_to_its_target() -> None:
    arrow = Graph(torch.tensor([[0], [1]]), nodes=2)
    assert (arrow.operator("adjacency") @ torch.tensor([5.0, 7.0])).tolist() == [0.0, 5.0]
    assert arrow.degrees().tolist() == [0.0, 1.0]
    assert dense(arrow, "random_walk").tolist() == [[0, 0], [1, 0]]


def test_a_loop_that_is_there_counts_once_and_several_edges_add_up() -> None:
    looped = Graph(torch.tensor([[0, 0, 0, 1, 1], [0, 1, 1, 0, 0]]), nodes=2)
    assert dense(looped, "adjacency").tolist() == [[1, 2], [2, 0]]
    expected = torch.tensor([[1 / 3, 2 / 3], [2 / 3, 1 / 3]], dtype=torch.float64)
    torch.testing.assert_close(dense(looped, "gcn"), expected, rtol=1e-15, atol=0)
    assert dense(looped, "laplacian").tolist() == [[2, -2], [-2, 2]]


@pytest.mark.parametrize("name", get_args(Operator))
def test_a_union_is_block_diagonal(name: Operator) -> None:
    graphs = [PATH, Graph(torch.empty(2, 0, dtype=torch.long), nodes=2), of_networkx(random_graph())]
    union = Graph.union(graphs)
    assert union.parts == (3, 2, 12)
    assert union.membership().tolist() == [0] * 3 + [1] * 2 + [2] * 12
    blocks = torch.block_diag(*(dense(graph, name) for graph in graphs))
    torch.testing.assert_close(dense(union, name), blocks, rtol=1e-12, atol=0)
    assert Graph.union([union, PATH]).parts == (3, 2, 12, 3)


def test_graphs_move_with_all_they_have() -> None:
    graph = Graph.union([of_networkx(random_graph()), PATH])
    assert graph.to("cpu") is graph
    there = graph.to("meta")
    assert there.parts == graph.parts
    assert there.operator("gcn").values.is_meta
    assert there.membership().is_meta


def test_wrong_graphs_are_refused() -> None:
    with pytest.raises(UsageError, match="no operator 'gnc'; it has adjacency, gcn"):
        PATH.operator("gnc")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="parts have 4 nodes together, the graph has 3"):
        Graph(PATH.edge_index, 3, parts=(2, 2))
    with pytest.raises(UsageError, match="constants; give learned ones"):
        Graph(PATH.edge_index, 3, torch.ones(4, requires_grad=True))
    with pytest.raises(UsageError, match="at least one graph"):
        Graph.union([])
    with pytest.raises(DataError, match="graph of 3 nodes needs as many rows of features, got 4"):
        Graph.of(PATH, 4)
    for edges in (PATH.edge_index.double(), PATH.edge_index.numpy(), [[0, 1], [1, 0]]):
        with pytest.raises(DataError, match="edge_index must be a tensor of whole numbers"):
            Graph(edges, 3)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="number of nodes must be a whole number, 0 or more"):
        Graph(torch.empty(2, 0).long(), -1)
    with pytest.raises(DataError, match="weights of edges must be finite"):
        Graph(PATH.edge_index, 3, torch.full((4,), torch.nan)).spectrum()
    signed = Graph(PATH.edge_index, 3, -torch.ones(4))
    assert signed.operator("laplacian").to_dense()[0].tolist() == [-1, 1, 0]
    with pytest.raises(DataError, match=r"gcn divides by degrees.*some are negative"):
        signed.operator("gcn")
    assert Graph.of(PATH.edge_index, 4).nodes == 4


def test_a_batch_gives_sparse_features_and_checks_its_rows() -> None:
    y, mask = torch.zeros(3, dtype=torch.long), torch.ones(3, dtype=torch.bool)
    batch = GraphBatch(x=torch.eye(3).to_sparse_coo(), y=y, mask=mask, graph=PATH)
    features, graph = batch.inputs
    assert isinstance(features, Sparse)
    assert features is batch.features
    assert graph is PATH
    assert torch.equal(features.to_dense(), torch.eye(3))
    assert GraphBatch(x=torch.eye(3), y=y, mask=mask, graph=PATH).inputs[0].layout == torch.strided
    with pytest.raises(DataError, match="3 nodes needs as many rows of x, got 2"):
        GraphBatch(x=torch.eye(2), y=y, mask=mask, graph=PATH)


@pytest.mark.parametrize("name", get_args(Operator))
def test_operators_of_learned_weights_are_those_of_a_weighted_graph_and_pass_gradients(name: Operator) -> None:
    weighted = of_networkx(random_graph())  # with isolated nodes
    assert weighted.weight is not None
    plain = Graph(weighted.edge_index, weighted.nodes)
    weight = weighted.weight.clone().requires_grad_()
    x = torch.randn(12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    learned = plain.operator(name, weight=weight)
    torch.testing.assert_close(learned.to_dense(), dense(weighted, name))
    assert plain.operator(name, weight=2 * weight).pattern is learned.pattern
    assert torch.autograd.gradcheck(lambda some: plain.operator(name, weight=some) @ x, (weight,))
    (gradient,) = torch.autograd.grad((learned @ x).square().sum(), weight)
    assert gradient.isfinite().all()
    with pytest.raises(DataError, match=r"edges need as many weights, got \(3,\)"):
        plain.operator(name, weight=weight[:3])


def test_features_of_edges_are_kept_in_a_union_and_checked() -> None:
    one, two = (Graph(PATH.edge_index, 3, edge_features=torch.full((4, 2), float(value))) for value in (1, 2))
    both = Graph.union([one, two])
    assert both.edge_features is not None
    assert both.edge_features[:, 0].tolist() == [1, 1, 1, 1, 2, 2, 2, 2]
    with pytest.raises(DataError, match="all graphs of a union need edge features"):
        Graph.union([one, PATH])
    with pytest.raises(DataError, match=r"4 edges need edge features of the shape \(edges, features\), got \(3, 2\)"):
        Graph(PATH.edge_index, 3, edge_features=torch.zeros(3, 2))

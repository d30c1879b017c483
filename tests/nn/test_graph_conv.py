"""The graph convolution is that of PyG on the same weights, in both orders of its products; dropout of entries."""

from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.core import DataError, Graph, Sparse, UsageError
from deepcanon.nn.graph_conv import GraphConv, dropped

NODES = 30


def random_graph(weighted: bool = False) -> Graph:
    """Directed, with loops, and with isolated nodes at the end."""
    random = torch.Generator().manual_seed(0)
    edges = torch.randint(NODES - 4, (2, 80), generator=random).unique(dim=1)
    weight = torch.rand(edges.shape[1], generator=random, dtype=torch.float64) + 0.5 if weighted else None
    return Graph(edges, NODES, weight)


def features(count: int) -> Tensor:
    return torch.randn(NODES, count, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("widths", [(7, 3), (3, 7), (5, 5)], ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("inner", [False, True], ids=["first", "inner"])
def test_it_is_pygs_gcnconv_with_all_its_gradients(widths: tuple[int, int], weighted: bool, inner: bool) -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    graph, x = random_graph(weighted), features(widths[0]).requires_grad_(inner)
    theirs, ours = pyg.GCNConv(*widths).double(), GraphConv(*widths).double()
    with torch.no_grad():
        ours.weight.copy_(theirs.lin.weight)
        theirs.bias.copy_(ours.bias.normal_())
    outputs = theirs(x, graph.edge_index, graph.weight), ours(x, graph)
    torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=1e-10)
    pull = torch.randn_like(outputs[0])
    wanted = torch.autograd.grad(outputs[0], [theirs.lin.weight, theirs.bias, *[x][:inner]], pull)
    found = torch.autograd.grad(outputs[1], [ours.weight, ours.bias, *[x][:inner]], pull)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("operator", "aggregate"), [("adjacency", "sum"), ("random_walk", "mean")])
def test_sums_and_means_are_those_of_pyg(operator: Any, aggregate: str) -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    graph, x, layer = random_graph(), features(4), GraphConv(4, 3, operator=operator).double()
    wanted = pyg.SimpleConv(aggr=aggregate)(x, graph.edge_index) @ layer.weight.T
    torch.testing.assert_close(layer(x, graph), wanted, rtol=0, atol=1e-12)


def test_sparse_features_give_what_dense_ones_give() -> None:
    graph, x = random_graph(), features(6)
    x = torch.where(x > 0.5, x, 0.0)
    layer = GraphConv(6, 3).double()
    outputs = [layer(given, graph) for given in (x, Sparse.of(x))]
    torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(output.square().sum(), layer.weight)[0] for output in outputs]
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=1e-12)


def test_an_edge_index_is_a_graph() -> None:
    graph, x, layer = random_graph(), features(4), GraphConv(4, 3).double()
    assert torch.equal(layer(x, graph.edge_index), layer(x, graph))


@pytest.mark.parametrize("widths", [(7, 3), (3, 7)], ids=str)
def test_half_precision_runs_with_and_without_autocast(widths: tuple[int, int]) -> None:
    graph, x, layer = random_graph(), features(widths[0]).float(), GraphConv(*widths)
    wanted = layer(x, graph)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = layer(x, graph)
    half = layer.bfloat16()(x.bfloat16(), graph)
    for output in (mixed, half):
        torch.testing.assert_close(output.float(), wanted, rtol=0, atol=0.03)


def test_dropout_scales_what_it_keeps_and_touches_nothing_else() -> None:
    x = torch.ones(400, 100)
    sparse = Sparse.of(torch.eye(200))
    torch.manual_seed(0)
    for share in (0.2, 0.5):
        some = dropped(x, share, training=True)
        assert isinstance(some, Tensor)
        assert set(some.unique().tolist()) == {0.0, torch.tensor(1 / (1 - share)).item()}
        assert (some == 0).double().mean().item() == pytest.approx(share, abs=0.015)  # six standard deviations
        few = dropped(sparse, share, training=True)
        assert isinstance(few, Sparse)
        assert few.pattern is sparse.pattern
        assert ((few.to_dense() != 0) <= (sparse.to_dense() != 0)).all()
    for given in (x, sparse):
        assert dropped(given, 0.5, training=False) is given
        assert dropped(given, 0.0, training=True) is given


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="operator must be one of adjacency, gcn"):
        GraphConv(3, 2, operator="mean")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="in_features must be at least 1"):
        GraphConv(0, 2)
    with pytest.raises(DataError, match="takes 3 features per node, got 4"):
        GraphConv(3, 2)(torch.zeros(2, 4), torch.zeros(2, 0, dtype=torch.long))

"""Graph attention and max aggregation compared with PyG's, on the same weights."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import DataError, Graph
from deepcanon.laws import check, report
from deepcanon.nn import AttentionConv, neighbor_max

NODES = 20


def inputs() -> tuple[Tensor, Graph]:
    """Directed edges, some loops, and isolated nodes at the end."""
    random = torch.Generator().manual_seed(0)
    edges = torch.randint(NODES - 3, (2, 60), generator=random).unique(dim=1)
    return torch.randn(NODES, 5, generator=random, dtype=torch.float64), Graph(edges, NODES)


@pytest.mark.parametrize("heads", [1, 3])
def test_attention_is_pygs_gatconv_with_all_its_gradients(heads: int) -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    x, graph = inputs()
    x.requires_grad_()
    theirs, ours = pyg.GATConv(5, 4, heads=heads).double(), AttentionConv(5, 4, heads=heads).double()
    pairs = [(ours.weight, theirs.lin.weight), (ours.source, theirs.att_src), (ours.target, theirs.att_dst)]
    with torch.no_grad():
        for mine, other in (*pairs, (ours.bias, theirs.bias)):
            other.copy_(mine.normal_().view_as(other))
    outputs = theirs(x, graph.edge_index), ours(x, graph)
    torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=1e-10)
    pull = torch.randn_like(outputs[0])
    wanted = torch.autograd.grad(outputs[0], [x, *(other for _, other in pairs)], pull)
    found = torch.autograd.grad(outputs[1], [x, *(mine for mine, _ in pairs)], pull)
    for gradient, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(gradient, other.view_as(gradient), rtol=0, atol=1e-10)


def test_max_aggregation_is_pygs() -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    x, graph = inputs()
    assert torch.equal(neighbor_max(x, graph), pyg.SimpleConv(aggr="max")(x, graph.edge_index))


class LargestOfNeighbors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return neighbor_max(self.linear(x), edge_index)


@pytest.mark.parametrize("make", [lambda: AttentionConv(3, 4, heads=2), LargestOfNeighbors], ids=["attention", "max"])
def test_they_keep_the_laws_of_graph_layers(make: Any) -> None:
    torch.manual_seed(0)
    found = check(make(), "graph")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == 9


def test_large_scores_do_not_overflow() -> None:
    x, graph = inputs()
    assert AttentionConv(5, 4).double()(1e6 * x, graph).isfinite().all()


def test_wrong_features_are_named() -> None:
    with pytest.raises(DataError, match="takes 3 features per node, got 5"):
        AttentionConv(3, 4).double()(*inputs())

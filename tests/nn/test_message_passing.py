"""Aggregations, their gradients and softmaxes over neighbors against dense matrices and PyG, in double precision."""

from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.core import DataError, Graph, UsageError
from deepcanon.core.sparse import entry_dots
from deepcanon.laws import check, report
from deepcanon.nn import (
    AttentionConv,
    GatedConv,
    NeighborAttention,
    SageConv,
    aggregate,
    at_columns,
    at_rows,
    head_dots,
    head_sums,
    message_passing,
    row_max,
    row_softmax,
    row_sum,
)

NODES = 20


def inputs() -> tuple[Tensor, Graph]:
    """Directed edges, some loops, and isolated nodes at the end."""
    random = torch.Generator().manual_seed(0)
    edges = torch.randint(NODES - 3, (2, 60), generator=random).unique(dim=1)
    x = torch.randn(NODES, 5, generator=random, dtype=torch.float64).requires_grad_()
    return x, Graph(edges[:, torch.randperm(edges.shape[1], generator=random)], NODES)


@pytest.mark.parametrize("how", ["sum", "mean", "max"])
def test_aggregations_are_pygs_with_their_gradients(how: Any) -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    x, graph = inputs()
    ours, theirs = aggregate(x, graph, how), pyg.SimpleConv(aggr=how)(x, graph.edge_index)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    pull = torch.randn_like(ours)
    (found,), (wanted,) = (torch.autograd.grad(each, x, pull) for each in (ours, theirs))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_gathering_and_adding_up_have_right_first_and_second_derivatives() -> None:
    x, graph = inputs()
    pattern = graph.operator("adjacency", torch.float64).pattern
    values = torch.randn(len(pattern.columns), 2, dtype=torch.float64).requires_grad_()
    calls: list[tuple[Any, Tensor]] = [
        (lambda z: at_rows(z, pattern).square(), x),
        (lambda z: at_columns(z, pattern).square(), x),
        (lambda z: row_sum(z.square(), pattern), values),
        (lambda z: row_softmax(z, pattern), values),
        (lambda z: entry_dots(pattern, z, z.cos()), x),
        (lambda z: head_sums(z.sin(), x[:, :4].detach().cos(), pattern), values),
        (lambda z: head_sums(values.detach().sin(), z[:, :4].cos(), pattern), x),
        (lambda z: head_dots(z[:, :4], z[:, 1:].cos(), pattern, 2), x),
        (lambda z: row_max(z, pattern), x),
    ]
    for call, z in calls:
        assert torch.autograd.gradcheck(call, (z,))
    for call, z in calls[:-1]:
        assert torch.autograd.gradgradcheck(call, (z,))


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_without_torchs_kernel_maxima_and_their_gradients_are_the_same(
    kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = inputs()[1]
    x = torch.randint(-2, 3, (NODES, 7), generator=torch.Generator().manual_seed(1)).to(kind).requires_grad_()  # ties
    pull = torch.randn(NODES, 7, dtype=kind, generator=torch.Generator().manual_seed(2))
    found = []
    for kernel in (message_passing.KERNEL, "an operation that torch has not"):
        monkeypatch.setattr(message_passing, "KERNEL", kernel)
        largest = aggregate(x, graph, "max")
        found.append((largest.detach(), torch.autograd.grad(largest, x, pull)[0], aggregate(x.detach(), graph, "max")))
    for ours, others in zip(*found, strict=True):
        assert torch.equal(ours, others)


def test_of_equal_largest_values_the_first_has_the_gradient_and_nodes_without_neighbors_none() -> None:
    edges = torch.tensor([[2, 1, 2, 0, 1], [0, 0, 1, 1, 1]])  # node 2 has no neighbors
    x = torch.zeros(3, 2).requires_grad_()
    largest = aggregate(x, Graph(edges, 3), "max")
    assert torch.autograd.grad(largest, x, torch.tensor([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]]))[0].tolist() == [
        [3.0, 5.0],  # the first neighbor of node 1
        [1.0, 2.0],  # of node 0
        [0.0, 0.0],
    ]
    with torch.no_grad():
        assert torch.equal(aggregate(x - 1, Graph(edges, 3), "max"), torch.tensor([[-1.0] * 2, [-1.0] * 2, [0.0] * 2]))
    nothing = aggregate(x, Graph(edges[:, :0], 3), "max")
    assert torch.equal(torch.autograd.grad(nothing.sum(), x)[0], torch.zeros(3, 2))
    assert aggregate(x.to("meta"), Graph(edges, 3).to("meta"), "max").shape == (3, 2)
    for kind in (torch.float16, torch.bfloat16):
        assert aggregate(torch.ones(3, 2, dtype=kind), Graph(edges, 3), "max")[:2].unique().tolist() == [1.0]


def test_softmaxes_are_those_of_rows_of_a_dense_matrix() -> None:
    _, graph = inputs()
    pattern = graph.operator("adjacency", torch.float64).pattern
    scores = 1e3 * torch.randn(len(pattern.columns), 1, dtype=torch.float64)
    dense = torch.full((NODES, NODES), -torch.inf, dtype=torch.float64)
    dense[pattern.rows.long(), pattern.columns.long()] = scores[:, 0]
    wanted = dense.softmax(1)[pattern.rows.long(), pattern.columns.long()]
    torch.testing.assert_close(row_softmax(scores, pattern)[:, 0], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("aggregation", ["sum", "mean", "max"])
def test_the_sage_layer_is_pygs(aggregation: Any) -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    x, graph = inputs()
    for width in (3, 8):
        ours = SageConv(5, width, aggregation=aggregation).double()
        theirs = pyg.SAGEConv(5, width, aggr=aggregation).double()
        with torch.no_grad():
            theirs.lin_l.weight.copy_(ours.weight)
            theirs.lin_l.bias.copy_(ours.bias.normal_())
            theirs.lin_r.weight.copy_(ours.own)
        torch.testing.assert_close(ours(x, graph), theirs(x, graph.edge_index), rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", [1, 3])
def test_attention_of_neighbors_is_pygs_transformer_layer_with_its_gradients(heads: int) -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    _, graph = inputs()
    x = torch.randn(NODES, 6, dtype=torch.float64).requires_grad_()
    ours = NeighborAttention(6, heads=heads).double()
    theirs = pyg.TransformerConv(6, 6 // heads, heads=heads, root_weight=False).double()
    pairs = ((ours.query, theirs.lin_query), (ours.key, theirs.lin_key), (ours.value, theirs.lin_value))
    for mine, other in pairs:
        other.load_state_dict(mine.state_dict())
    outputs = ours(x, graph), theirs(x, graph.edge_index)
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-12)
    pull = torch.randn_like(outputs[0])
    found = torch.autograd.grad(outputs[0], [x, *(mine.weight for mine, _ in pairs)], pull)
    wanted = torch.autograd.grad(outputs[1], [x, *(other.weight for _, other in pairs)], pull)
    for gradient, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(gradient, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        *(lambda how=how: SageConv(3, 4, aggregation=how) for how in ("sum", "mean", "max")),
        lambda: NeighborAttention(4, heads=2),
        lambda: GatedConv(3, 2),
        lambda: AttentionConv(3, 2, heads=2),
    ],
)
def test_layers_keep_the_laws_of_graph_layers(make: Any) -> None:
    torch.manual_seed(0)
    found = check(make(), "graph")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == 9


def test_dropout_of_attention_leaves_out_neighbors_in_training_only() -> None:
    _, graph = inputs()
    layer = AttentionConv(3, 2, dropout=0.5)
    x = torch.randn(NODES, 3)
    assert not torch.equal(layer(x, graph), layer(x, graph))
    layer.eval()
    assert torch.equal(layer(x, graph), layer(x, graph))


def test_wrong_arguments_are_named() -> None:
    x, graph = inputs()
    with pytest.raises(UsageError, match="how must be one of sum, mean, max"):
        aggregate(x, graph, "median")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="takes 3 features per node, got 5"):
        SageConv(3, 2).double()(x, graph)
    with pytest.raises(DataError, match="takes states of 3 units, got 5"):
        GatedConv(3, 2).double()(x, graph)
    with pytest.raises(UsageError, match="the heads share the width"):
        NeighborAttention(5, heads=2)
    with pytest.raises(DataError, match="a pattern of 20 columns needs as many rows of features, got 3"):
        row_max(x[:3], graph.operator("adjacency").pattern)

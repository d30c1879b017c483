"""Each law of graph layers is shown a layer that breaks it; healthy ones, ours and PyG's, keep them all."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Graph, GraphBatch, UsageError
from deepcanon.laws import check, report
from deepcanon.laws import graph as laws
from deepcanon.laws.outcome import Law
from deepcanon.models.graphs.gcn import GCN
from deepcanon.nn.graph_conv import GraphConv

ALONG_EDGES = len(laws.LAWS) - 1
"""The number of laws of a layer that does not claim to reach the whole component."""


def peers() -> dict[str, Callable[[], nn.Module]]:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    return {
        "GCNConv": lambda: pyg.GCNConv(3, 4),
        "GATConv": lambda: pyg.GATConv(3, 4, heads=2),
        "SAGEConv": lambda: pyg.SAGEConv(3, 4),
        "GINConv": lambda: pyg.GINConv(nn.Sequential(nn.Linear(3, 4), nn.Tanh())),
        "TransformerConv": lambda: pyg.TransformerConv(3, 4),
    }


def fails(law: Law, module: nn.Module) -> bool:
    torch.manual_seed(0)
    found = law(module, laws.invented_graph(module))
    assert found is not None
    return not found.holds


@pytest.mark.parametrize("name", ["GCNConv", "GATConv", "SAGEConv", "GINConv", "TransformerConv"])
def test_pygs_layers_keep_the_laws(name: str) -> None:
    torch.manual_seed(0)
    found = check(peers()[name](), "graph")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == ALONG_EDGES


@pytest.mark.parametrize("operator", ["gcn", "adjacency", "random_walk", "laplacian", "symmetric_laplacian"])
def test_our_layers_keep_the_laws(operator: Any) -> None:
    torch.manual_seed(0)
    found = check(GraphConv(3, 4, operator=operator), "graph")
    assert all(outcome.holds for outcome in found), report(found)
    found = check(GCN, "graph")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == ALONG_EDGES


class Layer(nn.Module):
    """A plain layer, ``self + sum of neighbors``, whose steps a mutant changes."""

    in_features = 3

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h: Tensor = self.linear(x)
        source, target = edge_index
        return h + torch.zeros_like(h).index_add(0, target, self.message(h, source, target))

    def message(self, h: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return h[source]


def test_the_layer_without_a_mutation_is_healthy() -> None:
    found = check(Layer(), "graph")
    assert all(outcome.holds for outcome in found), report(found)


class OwnState(Layer):
    """The sum over the neighbors takes the node's own state: nothing ever flows."""

    def message(self, h: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return h[target]


class Backwards(Layer):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index.flip(0))


def test_messages_that_go_nowhere_or_backwards_are_caught() -> None:
    assert fails(laws.messages_follow_the_edges, OwnState())
    assert fails(laws.messages_follow_the_edges, Backwards())
    assert not fails(laws.order_of_nodes_does_not_matter, Backwards())


class ReachesEverybody(Layer):
    """Every node hears of all nodes of its component."""

    reach = "component"

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h: Tensor = self.linear(x)
        owner = Graph(edge_index, len(x)).components()
        sums = h.new_zeros(len(h), h.shape[1]).index_add(0, owner, h)
        return h + sums[owner]


class ClaimsToReachEverybody(Layer):
    """It says that it reaches the whole component, and hears of neighbors only."""

    reach = "component"


def test_a_reach_that_is_only_claimed_is_caught() -> None:
    found = check(ReachesEverybody(), "graph")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == ALONG_EDGES
    assert fails(laws.a_change_reaches_the_whole_component, ClaimsToReachEverybody())
    assert laws.a_change_reaches_the_whole_component(Layer(), laws.invented_graph(Layer())) is None
    assert laws.messages_follow_the_edges(ReachesEverybody(), laws.invented_graph(Layer())) is None


class Numbered(Layer):
    """Messages grow with the number of the node they come from."""

    def message(self, h: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return h[source] * source.unsqueeze(1)


class LastWins(Layer):
    """Messages to one node overwrite each other."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h: Tensor = self.linear(x)
        source, target = edge_index
        for a, b in zip(source.tolist(), target.tolist(), strict=True):
            h = h.index_copy(0, torch.tensor([b]), h[a : a + 1])
        return h


def test_a_dependence_on_numbers_or_on_the_order_of_edges_is_caught() -> None:
    assert fails(laws.order_of_nodes_does_not_matter, Numbered())
    assert fails(laws.order_of_edges_does_not_matter, LastWins())
    assert not fails(laws.order_of_edges_does_not_matter, Numbered())


class MeanOfNobody(Layer):
    """The mean over no neighbors is 0 / 0."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h: Tensor = self.linear(x)
        source, target = edge_index
        degree = h.new_zeros(len(h)).index_add(0, target, torch.ones_like(target, dtype=h.dtype))
        return torch.zeros_like(h).index_add(0, target, h[source]) / degree.unsqueeze(1)


class Guesses(Layer):
    """The number of nodes is guessed from the edges."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
        return super().forward(x[:nodes], edge_index)


class Centered(Layer):
    """Features are centered over all nodes there are."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x - x.mean(0), edge_index)


class Masked(Layer):
    """Every node aggregates every other, those that are not neighbors with weight 0."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h: Tensor = self.linear(x)
        source, target = edge_index
        dense = h.new_zeros(len(h), len(h)).index_put((target, source), h.new_ones(()), accumulate=True)
        return h + dense @ h


def test_isolated_nodes_that_break_or_disturb_are_caught() -> None:
    for mutant in (MeanOfNobody, Guesses):
        assert fails(laws.every_node_gets_one_finite_row, mutant()), mutant
        assert fails(laws.isolated_nodes_stay_alone, mutant()), mutant
    assert fails(laws.isolated_nodes_stay_alone, Centered())


def test_graphs_that_mix_are_caught() -> None:
    assert fails(laws.graphs_side_by_side_do_not_mix, Centered())
    assert fails(laws.nan_in_another_graph_stays_there, Centered())
    assert fails(laws.nan_in_another_graph_stays_there, Masked())
    assert not fails(laws.graphs_side_by_side_do_not_mix, Masked())


class Counts(Layer):
    """The number of calls goes into the output."""

    calls = 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x, edge_index) + self.calls


class NoisyLayer(Layer):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x, edge_index), 0.5, training=True)


def test_memory_and_randomness_are_caught() -> None:
    assert fails(laws.same_input_same_output, Counts())
    assert fails(laws.same_input_same_output, NoisyLayer())


class WrongTranspose(torch.autograd.Function):
    """The gradient multiplies by the matrix itself, which is right for symmetric ones only."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, h: Tensor) -> Tensor:
        ctx.save_for_backward(matrix)
        return matrix @ h

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, ctx.saved_tensors[0] @ gradient


class UntransposedGradient(Layer):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        walk = Graph.of(edge_index, len(x)).operator("random_walk", x.dtype).to_dense()
        rows: Tensor = WrongTranspose.apply(walk, self.linear(x))  # type: ignore[no-untyped-call]
        return rows


class DetachedNeighbors(Layer):
    def message(self, h: Tensor, source: Tensor, target: Tensor) -> Tensor:
        return h.detach()[source]


def test_wrong_gradients_are_caught() -> None:
    assert fails(laws.gradient_is_the_slope, UntransposedGradient())
    assert fails(laws.gradient_is_the_slope, DetachedNeighbors())
    assert not fails(laws.same_input_same_output, UntransposedGradient())


def test_the_kind_needs_a_graph() -> None:
    with pytest.raises(UsageError, match="checked on a graph"):
        laws.check_graph(Layer(), Batch(torch.zeros(1, 2)))
    with pytest.raises(UsageError, match="the number of features of Identity is not given"):
        check(nn.Identity(), "graph")


def test_what_is_not_a_graph_layer_is_refused_once() -> None:
    with pytest.raises(UsageError, match=r"Linear cannot be called as a graph layer f\(x, edge_index\)"):
        check(nn.Linear(3, 2), "graph")


def test_features_may_be_sparse_and_weights_single() -> None:
    class Single(Layer):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x.float(), edge_index)

    batch = laws.invented_graph(Layer())
    sparse = GraphBatch(x=batch.x.to_sparse_coo(), y=batch.y, mask=batch.mask, graph=batch.graph)
    found = check((Single(), sparse), "graph")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == ALONG_EDGES - 1

"""Each law of graph-level models is shown a model that breaks it; healthy ones keep them all."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Graph, LabeledGraphs, UsageError
from deepcanon.laws import check, kinds_of, report
from deepcanon.laws import graphs as laws
from deepcanon.laws.outcome import Law
from deepcanon.models.graphs.graph_classifier import GraphClassifier
from deepcanon.nn import GraphConv, pool, segment_mean, segment_sum


class Classifier(nn.Module):
    """A plain graph-level network, whose steps a mutant changes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = GraphConv(3, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        logits: Tensor = self.head(self.read(self.conv(x, graph).tanh(), graph))
        return logits

    def read(self, h: Tensor, graph: Graph) -> Tensor:
        return pool(h, graph, "mean")


def fails(law: Law, module: nn.Module) -> bool:
    torch.manual_seed(0)
    found = law(module, GraphClassifier.example()[1])
    assert found is not None
    return not found.holds


@pytest.mark.parametrize("layer", ["gin", "gcn"])
@pytest.mark.parametrize("readout", ["sum", "mean", "max"])
def test_our_models_keep_the_laws(layer: Any, readout: Any) -> None:
    _, batch = GraphClassifier.example()
    torch.manual_seed(0)
    model = GraphClassifier(features=3, classes=2, hidden=(8, 8), layer=layer, readout=readout)
    found = check((model, batch), "graphs")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == len(laws.LAWS)
    assert kinds_of((model, batch)) == ["contract", "classifier", "graphs"]


@pytest.mark.parametrize("readout", ["sum", "max"])
def test_global_nodes_and_pooling_by_clusters_keep_the_laws(readout: Any) -> None:
    _, batch = GraphClassifier.example()
    torch.manual_seed(0)
    model = GraphClassifier(features=3, classes=2, hidden=(8, 6), readout=readout, global_node=True, clusters=3)
    found = check((model, batch), "graphs")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == len(laws.LAWS)


def test_the_model_without_a_mutation_is_healthy_also_with_weights_of_edges() -> None:
    _, batch = GraphClassifier.example()
    edges = batch.graph.edge_index.shape[1]
    more = Graph(batch.graph.edge_index, batch.graph.nodes, torch.rand(edges), batch.graph.parts)
    for graph in (batch.graph, more):
        found = check((Classifier(), LabeledGraphs(batch.x, batch.y, graph)), "graphs")
        assert all(outcome.holds for outcome in found), report(found)


class FirstNode(Classifier):
    """The readout is the first node's."""

    def read(self, h: Tensor, graph: Graph) -> Tensor:
        sizes = torch.tensor(graph.parts)
        rows = h[(sizes.cumsum(0) - sizes).clamp_max(len(h) - 1)]
        return torch.where(sizes.unsqueeze(1) > 0, rows, 0.0)


class Numbered(Classifier):
    """The readout weighs nodes by their numbers in the graph."""

    def read(self, h: Tensor, graph: Graph) -> Tensor:
        number = torch.cat([torch.arange(size) for size in graph.parts])
        return segment_mean(h * number.unsqueeze(1), graph.membership(), len(graph.parts))


def test_a_readout_that_depends_on_the_order_of_nodes_is_caught() -> None:
    assert fails(laws.order_of_nodes_does_not_matter, FirstNode())
    assert fails(laws.order_of_nodes_does_not_matter, Numbered())
    assert not fails(laws.graphs_do_not_mix, FirstNode())


class LastEdge(Classifier):
    """The last edge of every graph counts twice."""

    def read(self, h: Tensor, graph: Graph) -> Tensor:
        owner = graph.membership()[graph.edge_index[0]]
        last = torch.cat([owner.diff() != 0, torch.ones(min(1, len(owner)), dtype=torch.bool)])
        more = h[graph.edge_index[1, last]] * (1.0 + 0 * graph.edge_index[1, last].unsqueeze(1))
        return pool(h, graph, "mean") + segment_sum(more, owner[last], len(graph.parts))


def test_a_dependence_on_the_order_of_edges_is_caught() -> None:
    assert fails(laws.order_of_edges_does_not_matter, LastEdge())
    assert not fails(laws.order_of_edges_does_not_matter, FirstNode())


class OverAll(Classifier):
    """The readout is divided by the nodes of all graphs."""

    def read(self, h: Tensor, graph: Graph) -> Tensor:
        return pool(h, graph, "sum") / len(h)


class Normalized(Classifier):
    """Readouts are centered over the graphs that happen to be in the batch."""

    def read(self, h: Tensor, graph: Graph) -> Tensor:
        read = pool(h, graph, "sum")
        return read - read.mean(0)


class Masked(Classifier):
    """Every graph sums over all nodes, those of others with weight 0: NaN times 0 is NaN."""

    def read(self, h: Tensor, graph: Graph) -> Tensor:
        return nn.functional.one_hot(graph.membership(), len(graph.parts)).T.to(h.dtype) @ h


def test_graphs_that_mix_are_caught() -> None:
    assert fails(laws.graphs_do_not_mix, OverAll())
    assert fails(laws.graphs_do_not_mix, Normalized())
    assert fails(laws.nan_in_another_graph_stays_there, Normalized())
    assert fails(laws.nan_in_another_graph_stays_there, Masked())
    assert not fails(laws.graphs_do_not_mix, Masked())
    assert not fails(laws.order_of_nodes_does_not_matter, OverAll())


class MeanOfNobody(Classifier):
    """The mean over no nodes is 0 / 0."""

    def read(self, h: Tensor, graph: Graph) -> Tensor:
        return pool(h, graph, "sum") / torch.tensor(graph.parts).unsqueeze(1)


class Guesses(Classifier):
    """The number of graphs is guessed from their nodes, so that an empty one at the end is lost."""

    def read(self, h: Tensor, graph: Graph) -> Tensor:
        return segment_mean(h, graph.membership(), int(graph.membership().max()) + 1)


def test_an_empty_graph_that_is_lost_or_not_finite_is_caught() -> None:
    assert fails(laws.every_graph_gets_one_finite_row, MeanOfNobody())
    assert fails(laws.every_graph_gets_one_finite_row, Guesses())
    assert not fails(laws.graphs_do_not_mix, MeanOfNobody())


class Deaf(Classifier):
    """No message is ever passed."""

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        return super().forward(x, Graph(graph.edge_index[:, :0], graph.nodes, parts=graph.parts))


def test_a_model_without_messages_is_caught() -> None:
    assert fails(laws.edges_count, Deaf())
    assert not fails(laws.graphs_do_not_mix, Deaf())


def test_the_kind_needs_many_graphs() -> None:
    with pytest.raises(UsageError, match="checked on many graphs"):
        laws.check_graphs(Classifier(), Batch(torch.zeros(1, 2)))

"""The graph classifier is PyG's on the same weights, and sees what degrees do not show."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import deepcanon as dc
from deepcanon.core import DataError, Graph, LabeledGraphs, UsageError
from deepcanon.data import load_data
from deepcanon.data.sets.tudataset import MUTAG
from deepcanon.models.graphs.graph_classifier import GraphClassifier


def some(count: int = 12) -> LabeledGraphs:
    batch: LabeledGraphs = load_data("planted-graphs").train.select(torch.arange(count))
    return replace(batch, x=batch.x.double())


@pytest.mark.parametrize("readout", ["sum", "mean", "max"])
@pytest.mark.parametrize("layer", ["gin", "gcn"])
def test_the_network_is_pygs_on_the_same_weights(layer: Any, readout: Any) -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    torch.manual_seed(0)
    model = GraphClassifier(features=2, classes=3, hidden=(8, 5), layer=layer, readout=readout).double()
    pooling = {"sum": pyg.global_add_pool, "mean": pyg.global_mean_pool, "max": pyg.global_max_pool}[readout]
    batch = some()
    x, edges, owner = batch.x, batch.graph.edge_index, batch.graph.membership()
    read = []
    for ours in model.layers:
        theirs = pyg.GINConv(ours.mlp) if layer == "gin" else pyg.GCNConv(ours.in_features, ours.out_features).double()
        if layer == "gcn":
            with torch.no_grad():
                theirs.lin.weight.copy_(ours.weight)
                theirs.bias.copy_(ours.bias)
        x = theirs(x, edges).relu()
        read.append(pooling(x, owner))
    torch.testing.assert_close(model(*batch.inputs), model.head(torch.cat(read, 1)), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "arguments",
    [{"readout": "sum"}, {"readout": "mean"}, {"readout": "max"}, {"global_node": True}, {"clusters": 3}],
    ids=str,
)
def test_neither_the_order_of_nodes_nor_other_graphs_change_a_logit(arguments: Any) -> None:
    torch.manual_seed(0)
    model = GraphClassifier(features=2, classes=3, **arguments).double()
    batch = some()
    order = torch.cat(
        [rows[torch.randperm(len(rows))] for rows in torch.arange(batch.graph.nodes).split(batch.graph.parts)]
    )
    turned = replace(batch.graph, edge_index=order.argsort()[batch.graph.edge_index])
    logits = model(*batch.inputs)
    torch.testing.assert_close(model(batch.x[order], turned), logits, rtol=0, atol=1e-12)
    few = torch.tensor([7, 2])
    torch.testing.assert_close(model(*batch.select(few).inputs), logits[few], rtol=0, atol=1e-12)


def degree_histograms(batch: LabeledGraphs) -> np.ndarray[Any, Any]:
    """The shares of the degrees among the nodes of each graph."""
    degrees = batch.graph.degrees().long().clamp_max(12)
    counts = torch.zeros(len(batch), 13).index_put(
        (batch.graph.membership(), degrees), torch.ones(len(degrees)), accumulate=True
    )
    return (counts / counts.sum(1, keepdim=True)).numpy()


@pytest.mark.slow
def test_it_sees_what_histograms_of_degrees_do_not() -> None:
    data = load_data("planted-graphs")
    torch.manual_seed(0)
    result = dc.fit(GraphClassifier(features=2, classes=3), data, quiet=True, epochs=12)
    blind = LogisticRegression(max_iter=1000).fit(degree_histograms(data.train), data.train.y)
    test = data.split("test")
    assert blind.score(degree_histograms(test), test.y) < 0.45  # at random it is a third
    assert result.test["accuracy"] > 0.93


def test_features_of_edges_are_used_and_asked_for() -> None:
    random = torch.Generator().manual_seed(0)
    graphs = []
    for label in range(40):  # the type of all edges is the class, and nothing else is
        half = torch.stack([torch.arange(4), torch.arange(4).roll(1)])
        kind = torch.eye(2)[torch.full((8,), label % 2)]
        graphs.append(Graph(torch.cat([half, half.flip(0)], 1), 4, edge_features=kind))
    data = dc.data.from_graphs(graphs, torch.rand(160, 1, generator=random), [label % 2 for label in range(40)])
    assert data.sizes["edge_features"] == 2
    torch.manual_seed(0)
    model = GraphClassifier(features=1, classes=2, edge_features=2, hidden=(8,))
    assert dc.fit(model, data, quiet=True, epochs=30, lr=0.02).train["accuracy"] == 1
    with pytest.raises(DataError, match="takes no features per edge, the graph has 2"):
        GraphClassifier(features=1, classes=2)(*data.train.inputs)
    with pytest.raises(UsageError, match="gcn takes no features of edges, which graphs has"):
        dc.data.suits.check_suits(dc.find("gcn"), replace(data, train=_as_one_graph(data.train)))


def _as_one_graph(batch: LabeledGraphs) -> Any:
    nodes = torch.zeros(batch.graph.nodes, dtype=torch.long)
    return dc.core.GraphBatch(x=batch.x, y=nodes, mask=nodes == 0, graph=batch.graph)


def test_accumulated_parts_are_one_batch() -> None:
    """The loss is a mean over graphs: gradients of parts, weighed by their sizes, are that of all."""
    torch.manual_seed(0)
    model = GraphClassifier(features=2, classes=3, hidden=(6,)).double()
    batch = some(9)
    whole = _gradient(model, batch)
    parts = [batch.select(index) for index in torch.arange(9).split([2, 3, 4])]
    added = [sum(len(part) / 9 * _gradient(model, part)[i] for part in parts) for i in range(len(whole))]
    for ours, wanted in zip(added, whole, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-12)


def _gradient(model: GraphClassifier, batch: LabeledGraphs) -> list[Tensor]:
    return list(torch.autograd.grad(model.loss(batch)["nll"], list(model.parameters())))


@pytest.mark.slow
@pytest.mark.skipif(not MUTAG.remote.here(), reason="MUTAG.zip is not on this machine; set DEEPCANON_DATA")
def test_molecules_are_classified_with_their_bonds() -> None:
    data = load_data("mutag")
    torch.manual_seed(0)
    model = GraphClassifier(features=7, classes=2, edge_features=4)
    result = dc.fit(model, data, quiet=True, epochs=40)
    majority = float(data.split("test").y.double().mean())
    assert result.test["accuracy"] > majority + 0.05


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="gcn layers take no features of edges, got edge_features=2"):
        GraphClassifier(features=3, classes=2, edge_features=2, layer="gcn")
    with pytest.raises(UsageError, match="layer must be one of gin, gcn"):
        GraphClassifier(features=3, classes=2, layer="gat")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="readout must be one of sum, mean, max"):
        GraphClassifier(features=3, classes=2, readout="median")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="layers must be at least 1"):
        GraphClassifier(features=3, classes=2, hidden=())
    with pytest.raises(UsageError, match="dropout is the probability"):
        GraphClassifier(features=3, classes=2, dropout=1.0)

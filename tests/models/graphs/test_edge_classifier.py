"""The edge classifier has PyG's GINE layers, knows directions when asked to, and sees what ends do not say."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from sklearn.linear_model import LogisticRegression

import deepcanon as dc
from deepcanon.core import DataError, Graph, LabeledPairs, UsageError
from deepcanon.data import load_data
from deepcanon.models.graphs.edge_classifier import EdgeClassifier, edges_between


def example() -> tuple[EdgeClassifier, LabeledPairs]:
    torch.manual_seed(0)
    model, batch = EdgeClassifier.example()
    return model.double().eval(), replace(batch, x=batch.x.double())


@pytest.mark.slow
def test_the_nodes_are_embedded_by_pygs_layers_on_the_same_weights() -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    model, batch = example()
    h = batch.x
    for ours in model.layers:
        theirs = pyg.GINEConv(ours.mlp, edge_dim=2).double()
        theirs.lin.load_state_dict(ours.of_edges.state_dict())  # type: ignore[union-attr]
        assert batch.graph.edge_features is not None
        h = theirs(h, batch.graph.edge_index, batch.graph.edge_features.double()).relu()
    torch.testing.assert_close(model.embed(batch.x, batch.graph), h, rtol=0, atol=1e-10)
    u, v = h[batch.pairs]
    assert batch.graph.edge_features is not None
    wanted = model.head(torch.cat([u + v, (u - v).abs(), batch.graph.edge_features[:24].double()], 1))
    torch.testing.assert_close(model(*batch.inputs), wanted, rtol=0, atol=1e-10)


def test_directions_matter_where_they_are_asked_for_only() -> None:
    model, batch = example()
    turned = replace(batch, pairs=batch.pairs.flip(0))
    torch.testing.assert_close(model(*turned.inputs), model(*batch.inputs), rtol=0, atol=1e-12)
    told = EdgeClassifier(features=3, classes=2, edge_features=2, directions=True).double().eval()
    assert (told(*turned.inputs) - told(*batch.inputs)).abs().max() > 1e-3


def test_nodes_numbered_otherwise_have_the_same_edges() -> None:
    model, batch = example()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    number = order.argsort()
    graph = replace(batch.graph, edge_index=number[batch.graph.edge_index])
    moved = model(batch.x[order], graph, number[batch.pairs])
    torch.testing.assert_close(moved, model(*batch.inputs), rtol=0, atol=1e-12)


def own_features(batch: LabeledPairs) -> Any:
    """What an edge and its ends say without their neighbors."""
    assert batch.graph.edge_features is not None
    u, v = batch.x[batch.pairs]
    return torch.cat([u * v, (u - v).abs(), batch.graph.edge_features[edges_between(batch.graph, batch.pairs)]], 1)


@pytest.mark.slow
def test_by_its_recipe_it_sees_what_the_ends_alone_do_not_say() -> None:
    data = load_data("planted-edges")
    torch.manual_seed(0)
    result = dc.fit(EdgeClassifier(features=3, classes=2, edge_features=1), data, quiet=True, epochs=100)
    test = data.split("test")
    blind = LogisticRegression(max_iter=500).fit(own_features(data.train), data.train.y)
    assert result.test["accuracy"] > blind.score(own_features(test), test.y) + 0.08


def test_without_features_of_edges_any_pairs_will_do_and_with_them_pairs_must_be_edges() -> None:
    model, batch = example()
    pair = torch.tensor([[0], [6]])
    with pytest.raises(DataError, match="no edge leads from node 0 to node 6"):
        model(batch.x, batch.graph, pair)
    plain = EdgeClassifier(features=3, classes=4).double().eval()
    assert plain(batch.x, replace(batch.graph, edge_features=None), pair).shape == (1, 4)
    with pytest.raises(DataError, match="no edge leads from node 1 to node 0"):
        edges_between(Graph(torch.empty(2, 0).long(), 2), torch.tensor([[1], [0]]))


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="layers must be at least 1"):
        EdgeClassifier(features=3, classes=2, hidden=())
    with pytest.raises(UsageError, match="dropout is the probability"):
        EdgeClassifier(features=3, classes=2, dropout=1.0)
    model, batch = example()
    with pytest.raises(DataError, match=r"pairs must have the shape \(2, pairs\), got \(24, 2\)"):
        model(batch.x, batch.graph, batch.pairs.T)

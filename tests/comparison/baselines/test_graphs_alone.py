"""Baselines of graphs: label spreading against its closed form, and the features without edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

import deepcanon as dc
from deepcanon.comparison.baselines.graphs_alone import LabelPropagation, NodeFeatures, _spread
from deepcanon.core import Graph, UsageError


def test_labels_spread_to_the_closed_form_of_zhou() -> None:
    """F = (1 - a) (I - a S)^-1 Y, row by row in shares, with a hundredth of the prior mixed in."""
    train = dc.load_data("karate").train
    alpha = 0.5
    adjacency = train.graph.operator("adjacency").to_dense().double().numpy()
    degrees = adjacency.sum(1)
    s = adjacency / np.sqrt(np.outer(degrees, degrees))
    known = np.zeros((train.graph.nodes, 2))
    known[train.counted.numpy(), train.labels.numpy()] = 1
    exact = np.linalg.solve(np.eye(len(s)) - alpha * s, (1 - alpha) * known)
    shares = 0.99 * exact / exact.sum(1, keepdims=True) + 0.01 * known.sum(0) / known.sum()
    assert np.allclose(_spread(train, 2, alpha), shares, atol=1e-5)


def test_a_node_that_no_label_reaches_has_the_prior() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    known = torch.tensor([True, False, True, False])
    train = dc.data.of(Graph(edges, 4), torch.zeros(4, 1), torch.tensor([0, 1, 1, 0]), mask=known).train
    shares = _spread(train, 2, 0.9)
    assert shares[3].tolist() == pytest.approx([0.5, 0.5])
    assert float(shares[1, 0]) > 0.98


def test_propagation_finds_the_communities_of_karate_and_knows_its_graph_only() -> None:
    data: Any = dc.load_data("karate")
    fitted = LabelPropagation.fit(data, 0)
    right = data.test.where_labeled(fitted.predict(*data.test.inputs)) == data.test.labels
    assert float(right.double().mean()) >= 0.9
    with pytest.raises(UsageError, match="and no other"):
        fitted.predict(None, Graph(torch.zeros(2, 0).long(), 3))


def test_the_features_alone_are_a_logistic_regression_without_edges() -> None:
    random = np.random.default_rng(0)
    y = np.tile([0, 1, 2], 20)
    x = (random.normal(size=(60, 4)) + y[:, None]).astype(np.float32)
    graph = Graph(torch.from_numpy(random.integers(0, 60, size=(2, 200))), 60)
    mask = torch.arange(60) < 40
    data: Any = dc.data.of(graph, torch.from_numpy(x), torch.from_numpy(y), mask=mask)
    fitted = NodeFeatures.fit(data, 0)
    oracle = LogisticRegression(max_iter=1000).fit(x[:40], y[:40])
    assert np.allclose(fitted.predict(*data.train.inputs, how="mean"), oracle.predict_proba(x), atol=1e-6)


def test_many_graphs_are_described_by_means_and_sizes() -> None:
    data: Any = dc.load_data("planted-graphs")
    fitted = NodeFeatures.fit(data, 0)
    shares = fitted.predict(*data.test.inputs, how="mean")
    assert shares.shape == (len(data.test), data.sizes["classes"])
    assert not LabelPropagation.suits(data)

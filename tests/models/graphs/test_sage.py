"""GraphSAGE is PyG's on the same weights with every aggregation, and is trained on one graph for others."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import GraphBatch, UsageError
from deepcanon.data import load_data
from deepcanon.models.graphs.sage import Sage


def karate() -> GraphBatch:
    batch: GraphBatch = load_data("karate").train
    return replace(batch, x=batch.x.double())


@pytest.mark.parametrize("aggregation", ["sum", "mean", "max"])
@pytest.mark.parametrize("hidden", [(8,), (40,)])
def test_the_network_is_pygs_on_the_same_weights(aggregation: Any, hidden: tuple[int, ...]) -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    batch = karate()
    torch.manual_seed(0)
    model = Sage(features=34, classes=2, hidden=hidden, aggregation=aggregation).double().eval()
    named = {"sum": "add"}.get(aggregation, aggregation)
    theirs = pyg.GraphSAGE(34, hidden[0], num_layers=2, out_channels=2, aggr=named).double().eval()
    convs: Any = model.convs
    with torch.no_grad():
        for ours, other in zip(convs, theirs.convs, strict=True):
            other.lin_l.weight.copy_(ours.weight)
            other.lin_l.bias.copy_(ours.bias.normal_())
            other.lin_r.weight.copy_(ours.own)
    wanted = theirs(batch.x, batch.graph.edge_index)
    torch.testing.assert_close(model(*batch.inputs), wanted, rtol=0, atol=1e-10)
    sparse = replace(batch, x=batch.x.to_sparse_coo())
    torch.testing.assert_close(model(*sparse.inputs), wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("aggregation", ["sum", "mean", "max"])
def test_it_parts_the_karate_club(aggregation: Any) -> None:
    torch.manual_seed(0)
    model = Sage(features=34, classes=2, aggregation=aggregation)
    result = dc.fit(model, load_data("karate"), quiet=True, epochs=100)
    assert result.test["accuracy"] >= 0.8


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match=r"aggregation must be one of sum, mean, max \(got 'median'\)"):
        Sage(features=3, classes=2, aggregation="median")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="classes must be at least 2"):
        Sage(features=3, classes=1)

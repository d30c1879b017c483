"""The gated graph network is PyG's GatedGraphConv, sees as many edges far as it has steps, and keeps a memory."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import Graph, GraphBatch, UsageError
from deepcanon.data import load_data
from deepcanon.models.graphs.gated_graph import GatedGraph


def karate() -> GraphBatch:
    batch: GraphBatch = load_data("karate").train
    return replace(batch, x=batch.x.double())


@pytest.mark.parametrize("aggregation", ["sum", "mean", "max"])
def test_the_states_are_pygs_on_the_same_weights(aggregation: Any) -> None:
    pyg: Any = pytest.importorskip("torch_geometric.nn", reason="PyTorch Geometric is not installed")
    batch = karate()
    torch.manual_seed(0)
    model = GatedGraph(features=34, classes=2, units=6, rounds=4, aggregation=aggregation).double().eval()
    theirs = pyg.GatedGraphConv(6, 4, aggr={"sum": "add"}.get(aggregation, aggregation)).double()
    with torch.no_grad():
        theirs.weight.copy_(model.recurrent.weight.T.expand(4, 6, 6))  # theirs has a matrix for every step
        theirs.rnn.load_state_dict(model.recurrent.cell.state_dict())
    first = batch.x @ model.input.T
    wanted = torch.cat([theirs(first, batch.graph.edge_index), first], 1)
    torch.testing.assert_close(model.embed(*batch.inputs), wanted, rtol=0, atol=1e-10)


def test_a_node_sees_as_many_edges_far_as_there_are_steps() -> None:
    path = torch.stack([torch.arange(9), torch.arange(1, 10)])
    graph = Graph(torch.cat([path, path.flip(0)], 1), 10)
    x = torch.zeros(10, 1, dtype=torch.float64)
    for rounds in (1, 4):
        torch.manual_seed(0)
        model = GatedGraph(features=1, classes=2, units=4, rounds=rounds).double().eval()
        moved = (model(x + torch.eye(10, 1, dtype=torch.float64), graph) - model(x, graph)).abs().amax(1) > 1e-12
        assert moved.nonzero().flatten().tolist() == list(range(rounds + 1))


def test_gates_that_are_shut_keep_the_first_state() -> None:
    batch = karate()
    model = GatedGraph(features=34, classes=2, units=6, rounds=5).double().eval()
    with torch.no_grad():
        model.recurrent.cell.bias_ih[6:12] = 100.0  # the update gates keep the state
    states = model.embed(*batch.inputs)
    torch.testing.assert_close(states[:, :6], states[:, 6:])


def test_it_parts_the_karate_club() -> None:
    torch.manual_seed(0)
    result = dc.fit(GatedGraph(features=34, classes=2), load_data("karate"), quiet=True, epochs=80)
    assert result.test["accuracy"] >= 0.85


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="rounds must be at least 1"):
        GatedGraph(features=3, classes=2, rounds=0)
    with pytest.raises(UsageError, match="aggregation must be one of"):
        GatedGraph(features=3, classes=2, aggregation="median")  # type: ignore[arg-type]

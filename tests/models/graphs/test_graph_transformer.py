"""The graph transformer is torch's encoder and PyG's attention on the same weights, and sees across a ring."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import deepcanon as dc
from deepcanon.core import Graph, GraphBatch, UsageError
from deepcanon.data.entry import Entry
from deepcanon.data.sets import ring_of_cliques
from deepcanon.laws import check, report
from deepcanon.laws.graph import LAWS
from deepcanon.models.graphs.gcn import GCN
from deepcanon.models.graphs.graph_transformer import GraphTransformer
from deepcanon.nn import ComponentAttention, GraphTransformerBlock, NeighborAttention


def example(**arguments: Any) -> tuple[GraphTransformer, GraphBatch]:
    torch.manual_seed(0)
    _, batch = GraphTransformer.example()
    model = GraphTransformer(features=3, classes=2, units=8, heads=2, positions=2, **arguments)
    return model.double().eval(), replace(batch, x=batch.x.double())


def test_a_block_is_torchs_encoder_layer_on_the_same_weights() -> None:
    ours = GraphTransformerBlock(8, heads=2).double().eval()
    theirs = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True).double().eval()
    ours.mlp[0], ours.mlp[2] = theirs.linear1, theirs.linear2
    ours.before_attention, ours.before_mlp = theirs.norm1, theirs.norm2
    attention: Any = ours.attention
    with torch.no_grad():
        attention.attention.projection.weight.copy_(theirs.self_attn.in_proj_weight)
        attention.attention.projection.bias.copy_(theirs.self_attn.in_proj_bias.normal_())
        attention.attention.output.load_state_dict(theirs.self_attn.out_proj.state_dict())
    _, batch = example()
    x = torch.randn(10, 8, dtype=torch.float64)
    wanted = theirs(x.unsqueeze(0))[0]
    torch.testing.assert_close(ours(x, batch.graph), wanted, rtol=0, atol=1e-10)


def test_attention_to_all_is_attention_to_neighbors_of_a_complete_graph() -> None:
    whole, near = ComponentAttention(6, heads=2).double(), NeighborAttention(6, heads=2).double()
    with torch.no_grad():
        parts = zip((near.query, near.key, near.value), whole.attention.projection.weight.chunk(3), strict=True)
        for number, (linear, weight) in enumerate(parts):
            linear.weight.copy_(weight)
            linear.bias.copy_(whole.attention.projection.bias.chunk(3)[number])
    complete = torch.cartesian_prod(torch.arange(7), torch.arange(7)).T
    x = torch.randn(7, 6, dtype=torch.float64)
    torch.testing.assert_close(whole(x, complete), whole.attention.output(near(x, complete)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("attends", ["all", "neighbors"])
def test_either_attention_keeps_the_laws_of_graphs(attends: Any) -> None:
    model, batch = example(attends=attends)
    found = check((model, batch), "graph")
    assert all(outcome.holds for outcome in found), report(found)
    assert len(found) == len(LAWS) - 1  # it reaches along edges, or the whole component


def test_signs_are_flipped_in_training_and_chosen_by_a_rule_otherwise() -> None:
    model, batch = example()
    positions = batch.graph.positions(2)
    assert torch.equal(model._positions(batch.graph), positions)
    model.train()
    torch.manual_seed(0)
    drawn = torch.stack([model._positions(batch.graph) for _ in range(40)])
    assert torch.equal(drawn.abs(), positions.abs().expand_as(drawn))
    signs = (drawn / positions)[:, 0]
    assert {tuple(row) for row in signs.tolist()} == {(1, 1), (1, -1), (-1, 1), (-1, -1)}


def test_positions_tell_nodes_apart_that_look_alike() -> None:
    path = torch.stack([torch.arange(5), torch.arange(1, 6)])
    graph = Graph(torch.cat([path, path.flip(0)], 1), 6)
    blind = GraphTransformer(features=1, classes=2, units=8, positions=0).double().eval()
    placed = GraphTransformer(features=1, classes=2, units=8, positions=1).double().eval()
    x = torch.ones(6, 1, dtype=torch.float64)
    assert blind(x, graph).std(0).max() < 1e-12
    assert placed(x, graph).std(0).min() > 1e-4


@pytest.mark.slow
def test_it_sees_across_a_ring_where_a_gcn_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small form of the long-range task: rings of six cliques, two colors."""
    monkeypatch.setattr(ring_of_cliques, "CLIQUES", (6,))
    monkeypatch.setattr(ring_of_cliques, "RINGS", (40, 4, 20))
    entry: Entry = replace(ring_of_cliques.RING_OF_CLIQUES, counts=())
    data = ring_of_cliques.load(entry)
    torch.manual_seed(0)
    ours = dc.fit(GraphTransformer(features=4, classes=4), data, quiet=True, epochs=60, lr=4e-3).test["accuracy"]
    theirs = dc.fit(GCN(features=4, classes=4), data, quiet=True, epochs=60).test["accuracy"]
    assert ours > theirs + 0.4


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match=r"attends must be one of all, neighbors \(got 'some'\)"):
        GraphTransformer(features=3, classes=2, attends="some")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the heads share the width"):
        GraphTransformer(features=3, classes=2, units=10, heads=4)
    with pytest.raises(UsageError, match="positions must be at least 0"):
        GraphTransformer(features=3, classes=2, positions=-1)

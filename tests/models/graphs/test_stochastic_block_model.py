"""The block model sums to one, counts what it should, and is the baseline of edges at random with one block."""

import pytest
import torch

import deepcanon as dc
from deepcanon.core import Graph, Graphs, UsageError
from deepcanon.data import load_data
from deepcanon.laws.graph_density import every_graph
from deepcanon.models.graphs.stochastic_block_model import StochasticBlockModel
from deepcanon.train.baseline import EqualEdges


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_the_likelihood_sums_to_one_over_all_graphs_of_four_nodes(blocks: int) -> None:
    model = StochasticBlockModel(largest=5, blocks=blocks).double()
    model.joined.copy_(torch.rand(blocks, blocks))
    model.pairs.copy_(torch.ones(blocks, blocks))
    share = float(model.counts[4] / model.counts.sum())
    mass = model.log_prob(Graph.union(every_graph(4))).exp().sum()
    assert mass.item() == pytest.approx(share, rel=1e-6)


def test_one_block_is_the_random_graph_of_erdos_and_renyi() -> None:
    data = load_data("graph-families")
    model = StochasticBlockModel(largest=14, blocks=1)
    result = dc.fit(model, data, quiet=True)
    train = data.train
    sizes = torch.tensor(train.graph.parts, dtype=torch.float64)
    joined, pairs = train.graph.edge_index.shape[1] / 2, float((sizes * (sizes - 1)).sum() / 2)
    assert float(model.edge_probabilities()) == pytest.approx((joined + 1) / (pairs + 2), rel=1e-5)
    assert result.test["nll"] == pytest.approx(EqualEdges(train).scores(data.split("test"))["nll"], abs=0.2)


def test_more_blocks_know_more_of_the_families() -> None:
    data = load_data("graph-families")
    nll = [dc.fit(StochasticBlockModel(blocks=k), data, quiet=True).test["nll"] for k in (1, 4)]
    assert nll[1] < nll[0] - 1


def test_edges_are_counted_by_the_blocks_of_places_in_breadth_first_order() -> None:
    """A star of four leaves: the center comes first, so that two blocks of five places hold it and two leaves."""
    star = torch.stack([torch.full((4,), 3), torch.tensor([0, 1, 2, 4])])
    graph = Graph(torch.cat([star, star.flip(0)], 1), 5)
    model = StochasticBlockModel(largest=5, blocks=2)
    model.count(Graphs(torch.ones(5, 1), graph))
    assert model.joined.tolist() == [[2, 0], [2, 0]]
    assert model.pairs.tolist() == [[3, 0], [6, 1]]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="blocks must be at least 1"):
        StochasticBlockModel(blocks=0)

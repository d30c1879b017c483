"""The families of graphs: each is what networkx calls so, in equal shares, without labels."""

import networkx as nx
import pytest
import torch

from deepcanon.core import Graphs, LabeledGraphs
from deepcanon.data import load_data
from deepcanon.data.sets.graph_families import FAMILIES, FEWEST, MOST, cliques, ladder, ring, star


@pytest.mark.parametrize("half", [3, 4, 7])
def test_each_family_is_that_of_networkx(half: int) -> None:
    nodes = 2 * half
    wanted = {
        ring: nx.cycle_graph(nodes),
        star: nx.star_graph(nodes - 1),
        ladder: nx.ladder_graph(half),
        cliques: nx.barbell_graph(half, 0),
    }
    for family, one in wanted.items():
        assert nx.is_isomorphic(nx.Graph(family(nodes)), one)


def test_the_splits_hold_every_family_and_no_labels() -> None:
    data = load_data("graph-families")
    assert type(data.train) is Graphs
    assert not isinstance(data.train, LabeledGraphs)
    assert [len(data.split(part)) for part in ("train", "valid", "test")] == [800, 100, 200]
    sizes = torch.tensor(data.train.graph.parts)
    assert set(sizes.tolist()) == set(range(FEWEST, MOST + 1, 2))
    edges = data.train.graph.membership()[data.train.graph.edge_index[0]].bincount() // 2
    for place, family in enumerate(FAMILIES):
        rows = torch.arange(place, 800, len(FAMILIES))
        assert edges[rows].tolist() == [len(family(nodes)) for nodes in sizes[rows].tolist()]

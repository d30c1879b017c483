"""Planted graphs are the same everywhere, have classes by their colors alone, and degrees of one distribution."""

import numpy as np
import torch
from scipy.stats import ks_2samp

from deepcanon.core import LabeledGraphs
from deepcanon.data import load_data
from deepcanon.data.sets.planted_graphs import EDGES, FEWEST, MOST, SAME, plant
from deepcanon.data.split import fixed_random


def shares(batch: LabeledGraphs) -> torch.Tensor:
    """The share of the edges of every graph that join nodes of one color."""
    color, (source, target) = batch.x.argmax(1), batch.graph.edge_index
    owner = batch.graph.membership()[source]
    same = torch.zeros(len(batch)).index_add(0, owner, (color[source] == color[target]).float())
    return same / owner.bincount(minlength=len(batch))


def test_sizes_and_splits() -> None:
    data = load_data("planted-graphs")
    assert [len(data.split(name)) for name in ("train", "valid", "test")] == [900, 150, 300]
    assert data.train.y.bincount().tolist() == [300, 300, 300]
    assert {2 * FEWEST, 2 * MOST} <= set(data.train.graph.parts) <= set(range(2 * FEWEST, 2 * MOST + 1, 2))
    assert torch.equal(data.train.x.sum(1), torch.ones(len(data.train.x)))
    assert data.labels == tuple(SAME)


def test_graphs_are_simple_and_undirected_with_a_fixed_number_of_edges() -> None:
    random = fixed_random(5)
    for same in SAME.values():
        edges, color = plant(random, same)
        listed = list(map(tuple, edges.T.tolist()))
        assert len(set(listed)) == len(listed) == 2 * EDGES * len(color)
        assert {(b, a) for a, b in listed} == set(listed)
        assert all(a != b for a, b in listed)
        assert color.sum() * 2 == len(color)


def test_a_class_is_the_share_of_edges_between_nodes_of_one_color() -> None:
    data = load_data("planted-graphs")
    found = shares(data.train)
    for label, same in enumerate(SAME.values()):
        # Repetitions are left out, and self-loops, which are of one color.
        assert abs(float(found[data.train.y == label].mean()) - same) < 0.06


def test_degrees_have_one_distribution_in_all_classes() -> None:
    batch = load_data("planted-graphs").train
    degrees, owner = batch.graph.degrees().numpy(), batch.y[batch.graph.membership()].numpy()
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert ks_2samp(degrees[owner == a], degrees[owner == b]).statistic < 0.04
    assert np.ptp([degrees[owner == c].std() for c in range(3)]) < 0.1

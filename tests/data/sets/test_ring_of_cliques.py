"""Rings of cliques are networkx's; the class of a node is the color across its ring, and splits are apart."""

import networkx
import torch

from deepcanon.data import load_data
from deepcanon.data.sets.ring_of_cliques import CLIQUES, NODES, RINGS, SIZE, ring_of_cliques


def test_a_ring_is_networkxs() -> None:
    ours = networkx.Graph(ring_of_cliques(6, 4).T.tolist())
    assert networkx.is_isomorphic(ours, networkx.ring_of_cliques(6, 4))


def test_a_class_is_the_color_across_and_no_edge_leads_to_another_split() -> None:
    data = load_data("ring-of-cliques")
    batch = data.train
    color = batch.x.argmax(1)
    start = 0
    for number in range(3):
        cliques = CLIQUES[number % 3]
        mine = color[start : start + cliques * SIZE : SIZE]
        assert batch.y[start : start + cliques * SIZE : SIZE].tolist() == mine.roll(cliques // 2).tolist()
        start += cliques * SIZE
    masks = torch.stack([data.split(name).mask for name in ("train", "valid", "test")])
    assert masks.sum(0).tolist() == [1] * batch.graph.nodes
    assert masks.sum(1).tolist() == list(NODES)
    source, target = masks.int().argmax(0)[batch.graph.edge_index]
    assert torch.equal(source, target)
    assert int(batch.graph.components().max()) + 1 == sum(RINGS)

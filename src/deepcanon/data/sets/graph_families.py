"""Small graphs of four families: rings, stars, ladders and pairs of cliques."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import Graph, Graphs
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

FEWEST, MOST = 6, 14
"""The least and the largest number of nodes, both of them even, as all are."""

Pairs = list[tuple[int, int]]


def ring(nodes: int) -> Pairs:
    return [(i, (i + 1) % nodes) for i in range(nodes)]


def star(nodes: int) -> Pairs:
    return [(0, i) for i in range(1, nodes)]


def ladder(nodes: int) -> Pairs:
    half = nodes // 2
    rails = [(i + side, i + side + 1) for side in (0, half) for i in range(half - 1)]
    return [*rails, *((i, i + half) for i in range(half))]


def cliques(nodes: int) -> Pairs:
    half = nodes // 2
    inside = [(i + side, j + side) for side in (0, half) for i in range(half) for j in range(i)]
    return [*inside, (0, half)]


FAMILIES: tuple[Callable[[int], Pairs], ...] = (ring, star, ladder, cliques)


def load(entry: Entry) -> Dataset[Graphs]:
    """Graphs of every family in turn, with nodes numbered at random; the one feature of a node is 1."""
    parts = []
    for seed, count in enumerate(entry.counts):
        random = fixed_random(seed)
        graphs = [_graph(random, FAMILIES[i % len(FAMILIES)]) for i in range(count)]
        union = Graph.union(graphs)
        parts.append(Graphs(torch.ones(union.nodes, 1), union))
    return entry.dataset(*parts)


def _graph(random: np.random.RandomState, family: Callable[[int], Pairs]) -> Graph:
    nodes = 2 * int(random.randint(FEWEST // 2, MOST // 2 + 1))
    once: NDArray[np.int64] = random.permutation(nodes)[np.array(family(nodes)).T]
    return Graph(torch.from_numpy(np.concatenate([once, once[::-1]], 1)), nodes)


GRAPH_FAMILIES = Entry(
    name="graph-families",
    kind="graphs",
    shape=(1,),
    sizes={"features": 1},
    counts=(800, 100, 200),
    source="drawn here: rings, stars, ladders and pairs of cliques of 6 to 14 nodes, without labels",
    load=load,
)

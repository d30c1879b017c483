"""Graphs of nodes in two colors, whose edges prefer the same color, the other, or neither, with degrees alike."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import Graph, LabeledGraphs
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

SAME = {"communities": 0.8, "bipartite": 0.2, "mixed": 0.5}
"""The probability that an edge joins nodes of one color, for each class."""
FEWEST, MOST = 8, 16
"""The least and the largest number of nodes of each color."""
EDGES = 2
"""The number of edges per node."""
SPARE = 4
"""How many times as many edges are drawn, since repetitions are left out."""


def plant(random: np.random.RandomState, same: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Edges in both directions, (2, E), and the color of each node.

    Both ends of an edge are drawn uniformly, whatever the colors prefer, so that degrees have one distribution.
    """
    each = int(random.randint(FEWEST, MOST + 1))
    nodes, wanted = 2 * each, 2 * each * EDGES
    color = random.permutation(np.repeat([0, 1], each))
    of_color = np.stack([np.flatnonzero(color == c) for c in (0, 1)])
    drawn = SPARE * wanted
    a, prefers = random.randint(nodes, size=drawn), random.uniform(size=drawn) < same
    b = of_color[np.where(prefers, color[a], 1 - color[a]), random.randint(each, size=drawn)]
    pairs = np.minimum(a, b) * nodes + np.maximum(a, b)
    _, first = np.unique(pairs, return_index=True)
    kept = np.sort(first[(a != b)[first]])[:wanted]  # the first draws, without repetitions and self-loops
    once = np.stack([a[kept], b[kept]])
    return np.concatenate([once, once[::-1]], 1), color


def load(entry: Entry) -> Dataset[LabeledGraphs]:
    """Graphs of every class in turn; the feature of a node is its color, one-hot."""
    parts = []
    for seed, count in enumerate(entry.counts):
        random = fixed_random(seed)
        y = np.arange(count) % len(SAME)
        drawn = [plant(random, list(SAME.values())[label]) for label in y]
        graphs = [Graph(torch.from_numpy(edges), len(color)) for edges, color in drawn]
        x = torch.eye(2)[torch.from_numpy(np.concatenate([color for _, color in drawn]))]
        parts.append(LabeledGraphs(x=x, y=torch.from_numpy(y), graph=Graph.union(graphs)))
    return entry.dataset(*parts)


PLANTED_GRAPHS = Entry(
    name="planted-graphs",
    kind="graphs",
    shape=(2,),
    sizes={"features": 2, "classes": len(SAME)},
    counts=(900, 150, 300),
    source="drawn here: edges that prefer nodes of the same color, of the other, or neither (planted partitions)",
    load=load,
    labels=tuple(SAME),
)

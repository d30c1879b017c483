"""Rings of cliques, each of a color: every node is to tell the color of the clique across the ring."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import Graph, GraphBatch
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import fixed_random

COLORS = 4
CLIQUES = (6, 8, 10)
"""The numbers of cliques of a ring, even, so that each has one across from it."""
SIZE = 4
"""The number of nodes of a clique."""
RINGS = (120, 30, 60)
"""How many rings are in the training, validation and test splits."""


def ring_of_cliques(cliques: int, size: int = SIZE) -> Tensor:
    """The edges of a ring of cliques in both directions, (2, E): from the last node of one to the first of the next.

    >>> ring_of_cliques(3, 2).shape
    torch.Size([2, 12])
    """
    inside = torch.combinations(torch.arange(size)).T
    starts = size * torch.arange(cliques)
    within = (inside.unsqueeze(1) + starts.view(1, -1, 1)).flatten(1)
    between = torch.stack([starts + size - 1, (starts + size) % (size * cliques)])
    half = torch.cat([within, between], 1)
    return torch.cat([half, half.flip(0)], 1)


def load(entry: Entry) -> Dataset[GraphBatch]:
    """All rings in one graph; a split is the nodes of its rings, of which no edge leads to another ring."""
    random = fixed_random(0)
    graphs, colors, across, split = [], [], [], []
    for part, count in enumerate(RINGS):
        for number in range(count):
            cliques = CLIQUES[number % len(CLIQUES)]
            graphs.append(Graph(ring_of_cliques(cliques), SIZE * cliques))
            drawn = random.randint(COLORS, size=cliques)
            colors.append(np.repeat(drawn, SIZE))
            across.append(np.repeat(np.roll(drawn, cliques // 2), SIZE))
            split.append(np.full(SIZE * cliques, part))
    x, y, parts = (torch.from_numpy(np.concatenate(each)) for each in (colors, across, split))
    graph = Graph.union(graphs)
    features = torch.eye(COLORS)[x]
    return entry.dataset(*(GraphBatch(x=features, y=y, mask=parts == part, graph=graph) for part in range(3)))


NODES = tuple(SIZE * sum(CLIQUES[number % len(CLIQUES)] for number in range(count)) for count in RINGS)

RING_OF_CLIQUES = Entry(
    name="ring-of-cliques",
    kind="graph",
    shape=(COLORS,),
    sizes={"nodes": sum(NODES), "features": COLORS, "classes": COLORS},
    counts=NODES,
    source="drawn here: rings of 6 to 10 cliques of a color each; the class of a node is the color across its ring",
    load=load,
    labels=tuple(f"color {number}" for number in range(COLORS)),
)

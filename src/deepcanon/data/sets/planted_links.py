"""A graph of communities with some of its edges hidden, to be told from pairs of nodes that no edge joins."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import Graph, LabeledPairs
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.graphs.graph_links import different, strangers
from deepcanon.data.split import cut, fixed_random

NODES, COMMUNITIES = 200, 4
INSIDE = 0.9
"""The probability that an edge stays in a community."""


def plant(random: np.random.RandomState, edges: int) -> NDArray[np.int64]:
    """So many different edges, (2, edges), each in one direction, from the smaller number to the larger."""
    a, inside = random.randint(NODES, size=4 * edges), random.uniform(size=4 * edges) < INSIDE
    shift = np.where(inside, 0, random.randint(1, COMMUNITIES, size=4 * edges))
    b = (a + shift) % COMMUNITIES + COMMUNITIES * random.randint(NODES // COMMUNITIES, size=4 * edges)
    return different(a, b, edges, NODES)


def load(entry: Entry) -> Dataset[LabeledPairs]:
    """The training edges are the graph of all splits: what is to be predicted is never seen, in either direction."""
    random = fixed_random(0)
    edges = plant(random, sum(entry.counts) // 2)
    apart = strangers(random, edges, NODES)
    split = cut(np.arange(edges.shape[1]), [count // 2 for count in entry.counts])
    known = torch.from_numpy(edges)[:, split[0]]
    graph = Graph(torch.cat([known, known.flip(0)], 1), NODES)
    parts = []
    for rows in split:
        pairs = torch.cat([torch.from_numpy(apart)[:, rows], torch.from_numpy(edges)[:, rows]], 1)
        y = torch.arange(2).repeat_interleave(len(rows))
        parts.append(LabeledPairs(x=torch.eye(NODES), y=y, graph=graph, pairs=pairs))
    return entry.dataset(*parts)


PLANTED_LINKS = Entry(
    name="planted-links",
    kind="graphs",
    shape=(NODES,),
    sizes={"nodes": NODES, "features": NODES, "classes": 2},
    counts=(2000, 200, 600),
    source="drawn here: a graph of four communities, two in seven edges hidden, and as many pairs without an edge",
    load=load,
    labels=("no link", "link"),
)

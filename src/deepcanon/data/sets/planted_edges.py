"""A graph of people in three camps, whose edges are ties between friends, in a camp, or opponents, of two camps."""

from __future__ import annotations

import numpy as np
import torch

from deepcanon.core import Graph, LabeledPairs
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.graphs.graph_links import different
from deepcanon.data.split import cut, fixed_random

NODES, CAMPS = 240, 3
FRIENDS = 0.65
"""The share of edges that stay in a camp."""
WORDS, TONE = 1.0, 0.6
"""By how much the features of a node speak for its camp, and that of an edge for friendship, in standard deviations."""


def load(entry: Entry) -> Dataset[LabeledPairs]:
    """All edges are known with their features, and so are the classes of the training edges.

    Two thirds of the edges stay in a camp. A node has a noisy feature for each camp, an edge one for friendship;
    neither says much, but those of all neighbors together do.
    """
    random = fixed_random(0)
    camp = random.permutation(np.arange(NODES) % CAMPS)
    of_camp = np.stack([np.flatnonzero(camp == c) for c in range(CAMPS)])
    count = sum(entry.counts)
    a, friends = random.randint(NODES, size=4 * count), random.uniform(size=4 * count) < FRIENDS
    other = np.where(friends, camp[a], (camp[a] + random.randint(1, CAMPS, size=4 * count)) % CAMPS)
    b = of_camp[other, random.randint(NODES // CAMPS, size=4 * count)]
    edges = different(a, b, count, NODES)
    y = (camp[edges[0]] == camp[edges[1]]).astype(np.int64)
    x = torch.from_numpy(random.normal(size=(NODES, CAMPS)) + WORDS * np.eye(CAMPS)[camp]).float()
    tone = torch.from_numpy(random.normal(size=(count, 1)) + TONE * (2 * y[:, None] - 1)).float()
    order = torch.from_numpy(random.permutation(count))
    pairs, labels, tone = torch.from_numpy(edges)[:, order], torch.from_numpy(y)[order], tone[order]
    graph = Graph(torch.cat([pairs, pairs.flip(0)], 1), NODES, edge_features=torch.cat([tone, tone]))
    parts = cut(np.arange(count), entry.counts)
    return entry.dataset(*(LabeledPairs(x=x, y=labels[rows], graph=graph, pairs=pairs[:, rows]) for rows in parts))


PLANTED_EDGES = Entry(
    name="planted-edges",
    kind="graphs",
    shape=(CAMPS,),
    sizes={"nodes": NODES, "features": CAMPS, "classes": 2, "edge_features": 1},
    counts=(900, 150, 450),
    source="drawn here: ties of three camps, with noisy features of nodes and edges; a class is that of an edge",
    load=load,
    labels=("opponents", "friends"),
)

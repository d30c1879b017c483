"""Zachary's karate club: 34 members, their friendships, and the two clubs into which they split."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import Graph, GraphBatch
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import cut, stratified_order

NODES = 34
CLUBS = ("Mr. Hi", "Officer")
LEADERS = (0, 33)  # Mr. Hi himself and the officer, whose quarrel split the club


def load(entry: Entry) -> Dataset[GraphBatch]:
    """The club with one-hot features; the two leaders and one more member of each side are the training nodes."""
    from networkx import karate_club_graph

    club = karate_club_graph()
    edges = torch.tensor([(a, b) for edge in club.edges for a, b in (edge, edge[::-1])]).T.contiguous()
    y = torch.tensor([CLUBS.index(club.nodes[node]["club"]) for node in range(NODES)])

    def part(mask: Tensor) -> GraphBatch:
        return GraphBatch(x=torch.eye(NODES), y=y, mask=mask, graph=Graph(edges, NODES))

    train, valid, test = _masks(y, entry.counts)
    return entry.dataset(part(train), part(valid), part(test))


def _masks(y: Tensor, counts: tuple[int, ...]) -> list[Tensor]:
    followers = np.setdiff1d(np.arange(NODES), LEADERS)
    order = followers[stratified_order(y.numpy()[followers], seed=0)]
    train, valid, test = counts
    rows = cut(order, (train - len(LEADERS), valid, test))
    rows[0] = torch.cat([rows[0], torch.tensor(LEADERS)])
    return [torch.zeros(NODES, dtype=torch.bool).index_fill(0, part, True) for part in rows]


KARATE = Entry(
    name="karate",
    kind="graph",
    shape=(NODES,),
    sizes={"nodes": NODES, "features": NODES, "classes": len(CLUBS)},
    counts=(4, 10, 20),
    source="networkx, karate_club_graph (Zachary, 1977), edges without weights",
    load=load,
    labels=CLUBS,
)

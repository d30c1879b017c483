"""A stochastic block model: a graph whose edges depend on the blocks of their ends and on nothing else."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from deepcanon.core import Graph, GraphBatch
from deepcanon.data.dataset import Dataset
from deepcanon.data.entry import Entry
from deepcanon.data.split import cut, fixed_random

BLOCKS, SIZE = 4, 100
INSIDE, BETWEEN = 0.12, 0.015
"""The probabilities of an edge between two nodes of one block, and of two."""
FEATURES = 8
SIGNAL = 0.5
"""By how much the features of a node speak for its block, in standard deviations."""


def block_edges(
    random: np.random.RandomState, block: NDArray[np.int64], inside: float, between: float
) -> NDArray[np.int64]:
    """Undirected edges, (2, E), each pair of nodes joined or not by itself, from the smaller number to the larger."""
    a, b = np.triu_indices(len(block), 1)
    joined = random.uniform(size=len(a)) < np.where(block[a] == block[b], inside, between)
    return np.stack([a[joined], b[joined]]).astype(np.int64)


def load(entry: Entry) -> Dataset[GraphBatch]:
    """The class of a node is its block; the features say a little of it, the edges much more."""
    random = fixed_random(0)
    block = random.permutation(np.arange(BLOCKS * SIZE) % BLOCKS)
    half = torch.from_numpy(block_edges(random, block, INSIDE, BETWEEN))
    graph = Graph(torch.cat([half, half.flip(0)], 1), BLOCKS * SIZE)
    centers = random.normal(size=(BLOCKS, FEATURES))
    x = torch.from_numpy(random.normal(size=(BLOCKS * SIZE, FEATURES)) + SIGNAL * centers[block]).float()
    y = torch.from_numpy(block)
    parts = cut(np.arange(BLOCKS * SIZE), entry.counts)
    masks = (torch.zeros(BLOCKS * SIZE, dtype=torch.bool).index_fill(0, part, True) for part in parts)
    return entry.dataset(*(GraphBatch(x=x, y=y, mask=mask, graph=graph) for mask in masks))


BLOCK_MODEL = Entry(
    name="block-model",
    kind="graph",
    shape=(FEATURES,),
    sizes={"nodes": BLOCKS * SIZE, "features": FEATURES, "classes": BLOCKS},
    counts=(40, 60, 300),
    source="drawn here: four blocks of 100 nodes, edges within a block eight times as probable as between two",
    load=load,
    labels=tuple(f"block {number}" for number in range(BLOCKS)),
)

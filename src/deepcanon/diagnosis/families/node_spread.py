"""The nodes of a graph in the layers of a network: how different they still are, and whether features tell labels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import GraphBatch

PERMUTATIONS = 60


@torch.no_grad()
def node_spread(model: nn.Module, batch: GraphBatch) -> list[float]:
    """Of the features and of each layer that is called with the graph, the share that differs from node to node.

    It is one minus the share of the largest singular value among the squares of all: 0 where all rows are multiples of
    one, which is what repeated averaging leads to.

    References:
        | Deeper Insights into Graph Convolutional Networks for Semi-Supervised Learning (Li et al., 2018),
          https://arxiv.org/abs/1801.07606
    """
    found = [rows_apart(batch.x.to_dense())]
    nodes = len(batch.y)

    def record(part: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if len(inputs) > 1 and isinstance(output, Tensor) and output.ndim == 2 and len(output) == nodes:
            found.append(rows_apart(output))

    handles = [part.register_forward_hook(record) for part in model.modules() if part is not model]
    try:
        model(*batch.inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def rows_apart(rows: Tensor) -> float:
    """One minus the share of the largest singular value among the squares of all; 0 of rows that are alike."""
    values = (
        torch.linalg.svdvals(rows.double()) if min(rows.shape) <= 512 else torch.linalg.svdvals(rows[:512].double())
    )
    squares = values.square()
    return float(1 - squares[0] / squares.sum()) if float(squares.sum()) > 0 else 0.0


def telling_features(batch: GraphBatch) -> list[int] | None:
    """The features that give the classes of nodes away: one for each class, other than zero exactly at its nodes."""
    x, y = batch.x.to_dense(), batch.y
    known = y >= 0
    classes = y[known].unique().tolist()
    if len(classes) < 2 or int(known.sum()) < 2 * len(classes):
        return None
    on = x[known] != x[known].mode(0).values
    found = []
    for each in classes:
        inside = y[known] == each
        exact = (on[inside].all(0) & ~on[~inside].any(0)) | (~on[inside].any(0) & on[~inside].all(0))
        places = torch.nonzero(exact).flatten().tolist()
        if not places:
            return None
        found.append(places[0])
    return found


@torch.no_grad()
def right_share(model: nn.Module, batch: GraphBatch) -> tuple[float, float]:
    """The accuracy on the nodes that count, and the share of the most frequent class among them."""
    y = batch.y[batch.counted]
    predicted = model(*batch.inputs).argmax(-1)[batch.counted]
    return float((predicted == y).double().mean()), float(torch.bincount(y).max() / len(y))


def label_signal(batch: GraphBatch) -> dict[str, float]:
    """How far the classes of all nodes fit the edges and the features, in standard deviations of permuted classes.

    ``edges`` is of the share of edges within a class; ``features`` of the share of nodes whose nearest one, by the
    features and their means over the neighbors, is of their class. Both are near 0 where classes are drawn at random.
    """
    known = torch.nonzero(batch.y >= 0).flatten()
    y = batch.y[known]
    source, target = batch.graph.edge_index
    place = torch.full((len(batch.y),), -1)
    place[known] = torch.arange(len(known))
    ends = torch.stack([place[source], place[target]])
    ends = ends[:, (ends >= 0).all(0) & (ends[0] != ends[1])]
    x = batch.x.to_dense().double()
    mean = batch.graph.operator("random_walk", torch.float64) @ x
    rows = torch.cat([x, mean], 1)[known]
    rows = (rows - rows.mean(0)) / rows.std(0).clamp_min(1e-12)
    nearest = torch.cdist(rows, rows).fill_diagonal_(torch.inf).argmin(1)

    def shares(labels: Tensor) -> Tensor:
        within = (labels[ends[0]] == labels[ends[1]]).double().mean() if ends.shape[1] else torch.zeros(())
        return torch.stack([within.double(), (labels[nearest] == labels).double().mean()])

    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack([shares(y[torch.randperm(len(y), generator=generator)]) for _ in range(PERMUTATIONS)])
    edges, features = ((shares(y) - drawn.mean(0)) / drawn.std(0).clamp_min(1e-9)).tolist()
    return {"edges": edges, "features": features}

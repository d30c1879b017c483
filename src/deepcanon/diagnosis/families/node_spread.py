"""The nodes of a graph in the layers of a network: how different they still are, and whether features tell labels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import GraphBatch


@torch.no_grad()
def node_spread(model: nn.Module, batch: GraphBatch) -> list[float]:
    """Of the features and of each layer that is called with the graph, the share that differs from node to node.

    It is one minus the share of the largest singular value among the squares of all: 0 where all rows are multiples of
    one, which is what repeated averaging leads to.

    References:
        | Deeper Insights into Graph Convolutional Networks for Semi-Supervised Learning (Li et al., 2018),
          https://arxiv.org/abs/1801.07606
    """
    found = [_apart(batch.x.to_dense())]
    nodes = len(batch.y)

    def record(part: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if len(inputs) > 1 and isinstance(output, Tensor) and output.ndim == 2 and len(output) == nodes:
            found.append(_apart(output))

    handles = [part.register_forward_hook(record) for part in model.modules() if part is not model]
    try:
        model(*batch.inputs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _apart(rows: Tensor) -> float:
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

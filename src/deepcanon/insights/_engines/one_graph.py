"""The graph that an insight measures, with the signals on its nodes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from deepcanon.core import AnyBatch, Graph, GraphBatch, Graphs, UsageError


def one_graph(batch: AnyBatch) -> tuple[Graph, dict[str, Tensor]]:
    """A graph with its classes one-hot, where all are known, and its features; of many graphs, the largest."""
    if isinstance(batch, GraphBatch):
        known = {} if bool((batch.y < 0).any()) else {"classes": one_hot(batch.y).double()}
        return batch.graph, {**known, "features": batch.x.to_dense()}
    if isinstance(batch, Graphs):
        sizes = torch.tensor(batch.graph.parts or (batch.graph.nodes,))
        chosen = sizes.argmax().reshape(1)
        return batch.graph.select(chosen), {"features": batch.x.to_dense()[batch.rows(chosen)]}
    raise UsageError(f"a graph is needed, as that of the data karate; these data are {batch.noun}")

"""Pooling over segments: sums, means and largest values of the rows that belong together, such as a graph's nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from deepcanon.core import DataError, Graph
from deepcanon.core.checks import one_of

Readout = Literal["sum", "mean", "max"]


def segment_sum(x: Tensor, segment: Tensor, count: int) -> Tensor:
    """The sum of the rows of ``x`` (rows, width) in each of ``count`` segments, 0 for an empty one, (count, width).

    >>> import torch
    >>> segment_sum(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0, 2, 2]), 3).flatten()
    tensor([1., 0., 6.])
    """
    return x.new_zeros(count, x.shape[1]).index_add(0, segment, x)


def segment_mean(x: Tensor, segment: Tensor, count: int) -> Tensor:
    """The mean of the rows in each segment, 0 for an empty one, (count, width)."""
    sizes = x.new_zeros(count).index_add(0, segment, x.new_ones(len(x)))
    return segment_sum(x, segment, count) / sizes.clamp_min(1).unsqueeze(1)


def segment_max(x: Tensor, segment: Tensor, count: int) -> Tensor:
    """The largest value of every column in each segment, 0 for an empty one, (count, width)."""
    index = segment.unsqueeze(1).expand_as(x)
    return x.new_zeros(count, x.shape[1]).scatter_reduce(0, index, x, "amax", include_self=False)


READOUTS: dict[Readout, Callable[[Tensor, Tensor, int], Tensor]] = {
    "sum": segment_sum,
    "mean": segment_mean,
    "max": segment_max,
}


def pool(x: Tensor, graph: Graph, readout: Readout) -> Tensor:
    """The readout of every graph in a union: the sum, mean or largest value over its nodes, (graphs, width).

    >>> import torch
    >>> union = Graph(torch.empty(2, 0, dtype=torch.long), nodes=3, parts=(1, 2))
    >>> pool(torch.tensor([[1.0], [2.0], [4.0]]), union, "mean").flatten()
    tensor([1., 3.])
    """
    one_of(READOUTS, readout=readout)
    if len(x) != graph.nodes:
        raise DataError(f"graphs of {graph.nodes} nodes need as many rows of features, got {len(x)}")
    return READOUTS[readout](x, graph.membership(), len(graph.parts) or 1)

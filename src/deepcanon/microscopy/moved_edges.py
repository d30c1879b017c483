"""Movements: which edges of a compute graph change when a number in it is edited, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deepcanon.core import UsageError
from deepcanon.microscopy.compute_graph import ComputeGraph
from deepcanon.microscopy.verdict import Array, typical

STILL = 1e-12
"""Relative changes up to here are rounding."""


@dataclass(frozen=True)
class Movement:
    """The change of one edge: that of its value and of its delta, as a share of their size before (root mean square).

    A delta that is there in one of the graphs alone has changed by infinity.
    """

    edge: int
    value: float
    delta: float


def movements(before: ComputeGraph, after: ComputeGraph) -> list[Movement]:
    """The edges that have moved between two graphs of the same computation, in their order.

    >>> import torch
    >>> from deepcanon.microscopy.microscope import microscope
    >>> layer, x = torch.nn.Linear(2, 1), torch.ones(1, 2)
    >>> before = microscope(layer, x)
    >>> with torch.no_grad(): _ = layer.bias.add_(1.0)
    >>> [before.nodes[before.edge(each.edge).source].name for each in movements(before, microscope(layer, x))]
    ['bias', 'linear']
    """
    if [(node.op, node.name) for node in before.nodes] != [(node.op, node.name) for node in after.nodes]:
        raise UsageError("with that number the model computes something else, so that edges cannot be compared")
    found = []
    for one, other in zip(before.edges, after.edges, strict=True):
        value, delta = _change(one.value, other.value), _change(one.delta, other.delta)
        if max(value, delta) > STILL:
            found.append(Movement(one.id, value, delta))
    return found


def _change(before: Array | None, after: Array | None) -> float:
    if before is None or after is None:
        return 0.0 if before is after else float("inf")
    if before.dtype.kind not in "fc":
        return float(not np.array_equal(before, after))
    moved = np.where(np.equal(before, after), 0.0, np.abs(after - before))  # infinities that stay do not move
    size = typical(np.abs(before)[np.isfinite(before)]) or typical(np.abs(after)[np.isfinite(after)]) or 1.0
    return float(typical(moved) / size)

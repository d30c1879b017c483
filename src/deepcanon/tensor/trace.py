"""The trace of a computation: every value, and the delta (gradient) on every edge of the graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from deepcanon.tensor.autodiff import Edge, backward, first_delta
from deepcanon.tensor.errors import GradientError
from deepcanon.tensor.operation import Node, recording_is


class Trace(NamedTuple):
    """A graph with its deltas: nodes in the order in which they were made, and one edge for each use of a value.

    ``deltas`` has the delta of each node by its id: the sum of those on the edges that lead to its uses.
    """

    nodes: list[Node]
    edges: list[Edge]
    deltas: dict[int, np.ndarray[Any, Any]]

    def __repr__(self) -> str:
        return f"Trace({len(self.nodes)} nodes, {len(self.edges)} edges)"

    def __str__(self) -> str:
        """The edges as a table, from the result back to the leaves."""
        rows: list[tuple[str, ...]] = [("edge", "shape", "value", "delta")]
        for edge in self.edges:
            way = f"{_name(edge.node)}[{edge.argument}] <- {_name(edge.parent)}"
            numbers = (
                np.array2string(np.asarray(a), threshold=4, edgeitems=1) for a in (edge.parent.value, edge.delta)
            )
            rows.append((way, str(edge.parent.value.shape), *(" ".join(text.split()) for text in numbers)))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        )


def _name(node: Node) -> str:
    return f"{node.op.name if node.op else 'leaf'}:{node.id}"


def trace(output: Any, delta: Any = None) -> Trace:
    """The graph of a recorded result; the graph is kept.

    >>> from deepcanon.tensor import tensor
    >>> x = tensor(3.0, requires_grad=True)
    >>> for edge in trace(x * x + x).edges:
    ...     print(edge.node.op.name, edge.argument, edge.delta)
    add 0 1.0
    add 1 1.0
    multiply 0 3.0
    multiply 1 3.0
    """
    if getattr(output, "node", None) is None or not output.node.needs:
        raise GradientError("only a recorded result has a graph; compute it from a tensor made with requires_grad=True")
    start = first_delta(output, delta).array
    edges: list[Edge] = []
    with recording_is(False):
        backward([(output.node, start)], set(), record=False, keep=True, edges=edges)
    deltas = {output.node.id: start}
    for edge in edges:
        key = edge.parent.id
        deltas[key] = deltas[key] + edge.delta if key in deltas else edge.delta
    nodes = {output.node.id: output.node} | {edge.parent.id: edge.parent for edge in edges}
    return Trace([nodes[key] for key in sorted(nodes)], edges, deltas)

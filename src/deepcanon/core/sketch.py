"""Sketches of data for notebooks: a few images, points, rows or nodes, so that one sees what there is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from deepcanon.core.display import table
from deepcanon.core.svg import COLORS, bars, curves, network, picture_strip, scatter

if TYPE_CHECKING:
    from deepcanon.core.batch import AnyBatch
    from deepcanon.core.graph import Graph

IMAGES, LARGEST_SIDE, POINTS, ROWS, COLUMNS, SERIES, NODES, CLASSES = 10, 128, 400, 5, 8, 3, 80, 20
"""The most of each that a sketch has, and the most pixels of a side of an image."""


def batch_sketch(batch: AnyBatch, labels: Sequence[str] = ()) -> str:
    """The first examples of a batch as a notebook displays them; nothing of what lies in files or has another form."""
    x, graph, y = batch.x, getattr(batch, "graph", None), getattr(batch, "y", None)
    if not batch.in_memory or x.is_meta or not len(x):
        return ""
    classes = y if y is not None and y.ndim == 1 and not y.is_floating_point() and len(y) == len(x) else None
    if graph is not None:
        return graph_sketch(graph, classes)
    if x.ndim == 4 and x.shape[1] in (1, 3) and max(x.shape[2:]) <= LARGEST_SIDE:
        return picture_strip(x[:IMAGES], [] if classes is None else _named(classes[:IMAGES], labels))
    if x.ndim == 2 and x.shape[1] == 2 and x.is_floating_point():
        return _points(x[:POINTS], None if classes is None else classes[:POINTS], labels)
    if x.ndim == 3 and x.is_floating_point() and x.shape[2] == 1:
        shown = {f"series {row}": list(enumerate(x[row, :, 0].tolist())) for row in range(min(SERIES, len(x)))}
        return curves(shown, "time step", "value")
    return _rows(x) if x.ndim == 2 and x.layout == torch.strided else ""


def class_bars(y: Tensor | None, labels: Sequence[str]) -> str:
    """How many examples each class has; nothing where there are no classes, or too many to be seen."""
    if y is None or y.ndim != 1 or y.is_floating_point() or y.is_meta:
        return ""
    counts = Counter(y[y >= 0].tolist())
    named = dict(zip(sorted(counts), _named(torch.tensor(sorted(counts)), labels), strict=True))
    return bars({named[each]: counts[each] for each in sorted(counts)}) if 0 < len(counts) <= CLASSES else ""


def graph_sketch(graph: Graph, classes: Tensor | None = None) -> str:
    """A small graph by its nodes and edges, colored by class; of a larger one how many nodes have each degree."""
    if not 0 < graph.nodes <= NODES:
        degrees = Counter(torch.bincount(graph.edge_index[1], minlength=1).tolist())
        return bars({f"{degree} neighbors": degrees[degree] for degree in sorted(degrees)[:CLASSES]})
    pairs = sorted({(min(a, b), max(a, b)) for a, b in graph.edge_index.T.tolist() if a != b})
    names = [str(name) for name in graph.names] or [f"node {number}" for number in range(graph.nodes)]
    groups = [0] * graph.nodes if classes is None else [max(0, group) for group in classes.tolist()]
    return network([(x, y) for x, y in spring_layout(graph.nodes, pairs).tolist()], pairs, names, groups)


def spring_layout(nodes: int, pairs: Sequence[tuple[int, int]], rounds: int = 80) -> Tensor:
    """Places of the nodes in the plane: edges pull, all nodes push (Fruchterman and Reingold, 1991), from a circle.

    >>> spring_layout(3, [(0, 1)]).shape
    torch.Size([3, 2])
    """
    angles = torch.arange(nodes, dtype=torch.float64) * (2 * math.pi / nodes)
    places = torch.stack([angles.cos(), angles.sin()], 1)
    joined = torch.zeros(nodes, nodes, dtype=torch.float64)
    for a, b in pairs:
        joined[a, b] = joined[b, a] = 1.0
    apart = 2 / math.sqrt(nodes)
    for place in range(rounds):
        between = places[:, None] - places[None]
        distance = between.norm(dim=2).clamp(min=1e-3)
        push = apart**2 / distance**2 - joined * distance / apart
        motion = (between * push[..., None]).sum(1) - 0.1 * places  # so that parts do not drift away
        most = 0.3 * (1 - place / rounds)
        places = places + motion * (most / motion.norm(dim=1, keepdim=True).clamp(min=most))
    return places


def _points(x: Tensor, classes: Tensor | None, labels: Sequence[str]) -> str:
    points = [(a, b) for a, b in x.tolist()]
    if classes is None or len(set(classes.tolist())) > len(COLORS):
        return scatter({"points": points})
    groups: dict[str, list[tuple[float, float]]] = {}
    for point, name in sorted(zip(points, _named(classes, labels), strict=True), key=lambda pair: pair[1]):
        groups.setdefault(name, []).append(point)
    return scatter(groups)


def _rows(x: Tensor) -> str:
    columns = [f"column {place}" for place in range(1, min(COLUMNS, x.shape[1]) + 1)]
    rows = x[:ROWS, :COLUMNS].tolist()
    return table(["", *columns], [[f"row {place}", *row] for place, row in enumerate(rows)])


def _named(classes: Tensor, labels: Sequence[str]) -> list[str]:
    return [labels[each] if 0 <= each < len(labels) else str(each) for each in classes.tolist()]

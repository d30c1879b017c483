"""Graphs whose nodes are colored by class: as they are beside as they were said to be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from deepcanon.core import Graph
from deepcanon.pictures.style import INK, MUTED, colors, dress, new_figure

MOST_LAID_OUT = 300
"""Larger graphs take too long to lay out, and would show nothing but a ball of wool."""
TOLD = "told in training"
WRONG = "said wrongly"


def class_graph(
    graph: Graph,
    true: Tensor,
    shares: Tensor,
    *,
    told: Tensor,
    counted: Tensor,
    labels: Sequence[str] = (),
    part: str = "test",
    title: str = "",
) -> Figure:
    """The graph twice: colored by the true classes and by those that were said, with what was said wrongly ringed.

    ``shares`` are the probabilities of the classes, (nodes, classes); ``told`` are the nodes whose class was given
    in training and ``counted`` those of the ``part`` that is judged. A small graph is laid out by its edges. Of a
    larger one every node stands between the corners of a polygon, one for each class, nearer to those that were
    said to be more probable.
    """
    true, shares, told, counted = (t.detach().cpu() for t in (true, shares, told, counted))
    said = shares.argmax(1)
    wrong = (said != true) & counted
    right = 1 - float(wrong.sum()) / max(1, int(counted.sum()))
    laid_out = graph.nodes <= MOST_LAID_OUT
    places = layout(graph) if laid_out else between_corners(shares)
    names = list(labels) or [str(c) for c in range(shares.shape[1])]
    figure = new_figure(10.4, 5.0, title)
    for place, (classes, words) in enumerate(
        ((true, "True classes"), (said, f"Said classes: {right:.1%} right of {int(counted.sum())} in {part}")), start=1
    ):
        axes = figure.add_subplot(1, 2, place)
        _edges(axes, graph, places)
        _nodes(axes, places, classes, told, len(names), 70.0 if laid_out else 9.0)
        ring = places[wrong]
        axes.scatter(
            ring[:, 0], ring[:, 1], s=190.0 if laid_out else 26.0, facecolors="none", edgecolors=INK,
            linewidths=1.6 if laid_out else 0.5, zorder=4,
        )  # fmt: skip
        if not laid_out:
            _corners(axes, names)
        dress(axes, words, grid=False)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_aspect("equal")
        axes.spines[:].set_visible(False)
    shown = _legend(names if laid_out else [])  # the corners name the classes themselves
    figure.legend(handles=shown, loc="outside lower left", ncols=5, fontsize=8, labelcolor=INK, frameon=False)
    return figure


def layout(graph: Graph) -> Tensor:
    """Places in the plane where neighbors are near each other, (nodes, 2); the same ones whenever it is asked."""
    import networkx

    drawn: Any = networkx.Graph()
    drawn.add_nodes_from(range(graph.nodes))
    drawn.add_edges_from(graph.edge_index.T.tolist())
    if networkx.is_connected(drawn):
        found = networkx.kamada_kawai_layout(drawn)
    else:
        found = networkx.spring_layout(drawn, seed=0, k=2 / math.sqrt(graph.nodes), iterations=200)
    places = torch.tensor([list(map(float, found[node])) for node in range(graph.nodes)], dtype=torch.float64)
    places = places - places.mean(0)
    _, axes = torch.linalg.eigh(places.T @ places)
    lying_down: Tensor = places @ axes.flip(1)  # a page is wider than high
    return lying_down


def between_corners(shares: Tensor) -> Tensor:
    """The mean of the corners of a regular polygon, weighed by the probabilities of their classes, (nodes, 2).

    Between two corners is but a line: there the nodes stand beside each other in their order.

    >>> between_corners(torch.tensor([[1.0, 0.0, 0.0, 0.0]])).round(decimals=3)
    tensor([[0., 1.]], dtype=torch.float64)
    """
    places = shares.double() @ _polygon(shares.shape[1])
    if shares.shape[1] == 2:
        places[:, 0] = torch.linspace(-1, 1, len(places))
    return places


def _polygon(corners: int) -> Tensor:
    angle = 2 * math.pi * torch.arange(corners, dtype=torch.float64) / corners
    return torch.stack([angle.sin(), angle.cos()], 1)


def _edges(axes: Axes, graph: Graph, places: Tensor) -> None:
    source, target = graph.edge_index.cpu()
    once = source < target
    lines = torch.stack([places[source[once]], places[target[once]]], 1)
    few = len(lines) < 500
    axes.add_collection(
        LineCollection(list(lines.numpy()), colors=MUTED, linewidths=0.7 if few else 0.25, alpha=0.45 if few else 0.08)
    )


def _nodes(axes: Axes, places: Tensor, classes: Tensor, told: Tensor, count: int, size: float) -> None:
    for color, c in zip(colors(count), range(count), strict=True):
        for marker, some in (("o", ~told), ("s", told)):
            x, y = places[(classes == c) & some].T
            axes.scatter(
                x, y, s=size * (1.6 if marker == "s" else 1.0), marker=marker, color=color,
                edgecolors="white", linewidths=0.6 if size > 20 else 0.2, zorder=3 if marker == "s" else 2,
            )  # fmt: skip


def _corners(axes: Axes, names: Sequence[str]) -> None:
    for name, (x, y), color in zip(names, (1.12 * _polygon(len(names))).tolist(), colors(len(names)), strict=True):
        side = "center" if abs(x) < 0.1 else "left" if x > 0 else "right"
        axes.annotate(name.replace(" ", "\n"), (x, y), ha=side, va="center", fontsize=8, fontweight="bold", color=color)
    axes.set_xlim(-1.5, 1.5)
    axes.set_ylim(-1.1, 1.2)


def _legend(names: Sequence[str]) -> list[Line2D]:
    dots = [
        Line2D([], [], marker="o", linestyle="", color=color, label=name)
        for name, color in zip(names, colors(len(names)), strict=True)
    ]
    told = Line2D([], [], marker="s", linestyle="", color=MUTED, label=TOLD)
    ring = Line2D([], [], marker="o", linestyle="", color=INK, markerfacecolor="none", markersize=9, label=WRONG)
    return [*dots, told, ring]

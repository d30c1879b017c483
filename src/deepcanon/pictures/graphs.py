"""Graphs with nodes colored by class: the true classes next to the predicted ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path
from torch import Tensor

from deepcanon.core import Graph
from deepcanon.pictures.class_names import class_names
from deepcanon.pictures.style import INK, MUTED, colors, dress, new_figure

MOST_LAID_OUT = 300
"""Larger graphs take too long to lay out, and would show nothing but a ball of wool."""
TRAINING = "training node"
WRONG = "wrong prediction"
UNKNOWN = "class not known"


def class_graph(
    graph: Graph,
    true: Tensor,
    probabilities: Tensor,
    *,
    training: Tensor,
    counted: Tensor,
    labels: Sequence[str] = (),
    split: str = "test",
    title: str = "",
) -> Figure:
    """The graph twice: colored by the true and by the predicted classes, with wrong predictions ringed.

    ``probabilities`` are those of the classes, (nodes, classes); ``training`` is the mask of the training nodes and
    ``counted`` that of the ``split`` that is evaluated; a true class below 0 is not known. A small graph is laid out by
    its edges. Of a larger one every node stands between the corners of a polygon, one for each class, nearer to the
    more probable classes.
    """
    true, probabilities, training, counted = (t.detach().cpu() for t in (true, probabilities, training, counted))
    predicted = probabilities.argmax(1)
    wrong = (predicted != true) & counted
    right = 1 - float(wrong.sum()) / max(1, int(counted.sum()))
    laid_out = graph.nodes <= MOST_LAID_OUT
    points = layout(graph) if laid_out else between_corners(probabilities)
    names = class_names(labels, probabilities.shape[1])
    figure = new_figure(10.4, 5.0, title)
    accuracy = f"Predicted classes: {right:.1%} right of {int(counted.sum())} in {split}"
    for panel, (classes, words) in enumerate(((true, "True classes"), (predicted, accuracy)), start=1):
        axes = figure.add_subplot(1, 2, panel)
        _edges(axes, graph, points)
        _nodes(axes, points, classes, training, len(names), 70.0 if laid_out else 9.0)
        ring = points[wrong]
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
    shown = _legend(names if laid_out else [], bool((true < 0).any()))  # the corners name the classes themselves
    figure.legend(handles=shown, loc="outside lower left", ncols=5, fontsize=8, labelcolor=INK, frameon=False)
    return figure


def layout(graph: Graph) -> Tensor:
    """A layout of the graph in the plane, neighbors near each other, (nodes, 2); always the same for the same graph."""
    source, target = graph.edge_index.cpu()
    joined = csr_array((np.ones(len(source)), (source, target)), (graph.nodes, graph.nodes))
    number, component = connected_components(joined, directed=False)
    points = torch.zeros(graph.nodes, 2, dtype=torch.float64)
    right = 0.0
    parts = [(component == i).nonzero()[0] for i in range(number)]
    for part in sorted(parts, key=len, reverse=True):
        steps = shortest_path(joined[part][:, part], directed=False, unweighted=True)
        here = _by_distances(torch.from_numpy(steps))
        here = here * math.sqrt(len(part)) / here.abs().max().clamp_min(1e-9)
        _, axes = torch.linalg.eigh(here.T @ here)
        here = here @ axes.flip(1)  # lying down: a page is wider than high
        left, width = here[:, 0].min(), here[:, 0].max() - here[:, 0].min()
        points[part] = here + torch.tensor([right - float(left), 0.0], dtype=torch.float64)
        right += float(width) + 1  # components stand next to each other, the largest first
    return points - points.mean(0)


def _by_distances(steps: Tensor, rounds: int = 200) -> Tensor:
    r"""Points in the plane as far from each other as so many steps, (nodes, 2): the layout of Kamada and Kawai.

    .. math:: \min_x \sum_{i<j} d_{ij}^{-2} (|x_i - x_j| - d_{ij})^2

    It is found by stress majorization, from the two main axes of the squared distances.

    References:
        | Graph Drawing by Stress Majorization (Gansner, Koren and North, 2004),
          https://doi.org/10.1007/978-3-540-31843-9_25
    """
    nodes = len(steps)
    if nodes < 2:
        return torch.zeros(nodes, 2, dtype=torch.float64)
    centered = torch.eye(nodes, dtype=torch.float64) - 1 / nodes
    values, vectors = torch.linalg.eigh(-0.5 * centered @ steps.square() @ centered)
    points: Tensor = vectors[:, -2:] * values[-2:].clamp_min(0).sqrt()
    points = points + 1e-3 * torch.stack(
        [torch.cos(a := torch.arange(nodes).double()), torch.sin(a)], 1
    )  # none are equal
    weight = steps.clamp_min(1).pow(-2).fill_diagonal_(0)
    inverse = torch.linalg.pinv(torch.diag(weight.sum(1)) - weight, hermitian=True)
    for _ in range(rounds):
        pull = weight * steps / torch.cdist(points, points).clamp_min(1e-9)
        points = inverse @ ((torch.diag(pull.sum(1)) - pull) @ points)
    return points - points.mean(0)


def edge_lines(graph: Graph, points: Tensor) -> Tensor:
    """The lines between the nodes that edges join, (lines, 2, 2); an edge that leads both ways is one line."""
    source, target = graph.edge_index.cpu().sort(0).values.unique(dim=1)
    return torch.stack([points[source], points[target]], 1)


def between_corners(probabilities: Tensor) -> Tensor:
    """The mean of the corners of a regular polygon, weighted by the probabilities of their classes, (nodes, 2).

    Between two corners is but a line: there the nodes stand next to each other in their order.

    >>> between_corners(torch.tensor([[1.0, 0.0, 0.0, 0.0]])).round(decimals=3)
    tensor([[0., 1.]], dtype=torch.float64)
    """
    points = probabilities.double() @ _polygon(probabilities.shape[1])
    if probabilities.shape[1] == 2:
        points[:, 0] = torch.linspace(-1, 1, len(points))
    return points


def _polygon(corners: int) -> Tensor:
    angle = 2 * math.pi * torch.arange(corners, dtype=torch.float64) / corners
    return torch.stack([angle.sin(), angle.cos()], 1)


def _edges(axes: Axes, graph: Graph, points: Tensor) -> None:
    lines = edge_lines(graph, points)
    few = len(lines) < 500
    axes.add_collection(
        LineCollection(list(lines.numpy()), colors=MUTED, linewidths=0.7 if few else 0.25, alpha=0.45 if few else 0.08)
    )


def _nodes(axes: Axes, points: Tensor, classes: Tensor, training: Tensor, count: int, size: float) -> None:
    if bool((blank := classes < 0).any()):
        x, y = points[blank].T
        axes.scatter(x, y, s=size, color="white", edgecolors=MUTED, linewidths=1.0 if size > 20 else 0.3, zorder=2)
    for color, c in zip(colors(count), range(count), strict=True):
        for marker, some in (("o", ~training), ("s", training)):
            x, y = points[(classes == c) & some].T
            axes.scatter(
                x, y, s=size * (1.6 if marker == "s" else 1.0), marker=marker, color=color,
                edgecolors="white", linewidths=0.6 if size > 20 else 0.2, zorder=3 if marker == "s" else 2,
            )  # fmt: skip


def _corners(axes: Axes, names: Sequence[str]) -> None:
    for name, (x, y), color in zip(names, (1.12 * _polygon(len(names))).tolist(), colors(len(names)), strict=True):
        side = "center" if abs(x) < 0.1 else "left" if x > 0 else "right"
        axes.annotate(name.replace(" ", "\n"), (x, y), ha=side, va="center", fontsize=8, fontweight="bold", color=color)
    axes.set_xlim(-1.5, 1.5)
    axes.set_ylim(-1.2, 1.2)  # a name beyond the limits would not be drawn


def _legend(names: Sequence[str], unknown: bool) -> list[Line2D]:
    dots = [
        Line2D([], [], marker="o", linestyle="", color=color, label=name)
        for name, color in zip(names, colors(len(names)), strict=True)
    ]
    training = Line2D([], [], marker="s", linestyle="", color=MUTED, label=TRAINING)
    ring = Line2D([], [], marker="o", linestyle="", color=INK, markerfacecolor="none", markersize=9, label=WRONG)
    blank = Line2D([], [], marker="o", linestyle="", color=MUTED, markerfacecolor="white", label=UNKNOWN)
    return [*dots, training, ring, *([blank] if unknown else [])]

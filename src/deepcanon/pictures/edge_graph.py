"""Graphs with pairs of nodes colored by class: the true classes next to the predicted ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from deepcanon.core import Graph
from deepcanon.pictures.class_names import class_names
from deepcanon.pictures.graphs import layout
from deepcanon.pictures.style import INK, MUTED, colors, dress, new_figure

MOST_PAIRS = 120
"""More lines than these would cover each other."""


def pair_graph(
    graph: Graph,
    pairs: Tensor,
    true: Tensor,
    probabilities: Tensor,
    *,
    labels: Sequence[str] = (),
    split: str = "test",
    title: str = "",
) -> Figure:
    """The graph twice, with some ``pairs`` (2, P) as lines: colored by true and by predicted classes.

    ``probabilities`` are those of the classes, (P, classes). Wrong predictions are dotted. The edges of the graph are
    thin lines, by which it is laid out.
    """
    true, probabilities, pairs = (each.detach().cpu() for each in (true, probabilities, pairs))
    right = float((probabilities.argmax(1) == true).double().mean())
    chosen = torch.arange(0, pairs.shape[1], -(-pairs.shape[1] // MOST_PAIRS))
    points, names = layout(graph), class_names(labels, probabilities.shape[1])
    predicted = probabilities.argmax(1)[chosen]
    wrong = predicted != true[chosen]
    figure = new_figure(10.4, 5.0, title)
    accuracy = f"Predicted classes: {right:.1%} right of {pairs.shape[1]} in {split}"
    shown = "True classes" + (f", {len(chosen)} of the pairs" if len(chosen) < pairs.shape[1] else "")
    for panel, (classes, words) in enumerate(((true[chosen], shown), (predicted, accuracy)), start=1):
        axes = figure.add_subplot(1, 2, panel)
        known = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].cpu()
        axes.add_collection(LineCollection(list(points[known.T].numpy()), colors=MUTED, linewidths=0.3, alpha=0.25))
        for color, number in zip(colors(len(names)), range(len(names)), strict=True):
            for style, some in (("solid", ~wrong), ("dotted", wrong)):
                ends = pairs[:, chosen][:, (classes == number) & some]
                axes.add_collection(
                    LineCollection(
                        list(points[ends.T].numpy()), colors=color, linewidths=1.0, alpha=0.8, linestyles=style
                    )
                )
        across, up = points.T.numpy()
        axes.scatter(across, up, s=10.0, color=INK, edgecolors="white", linewidths=0.4, zorder=3)
        dress(axes, words, grid=False)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_aspect("equal")
        axes.spines[:].set_visible(False)
    lines = [Line2D([], [], color=color, label=name) for name, color in zip(names, colors(len(names)), strict=True)]
    dotted = Line2D([], [], color=MUTED, linestyle="dotted", label="wrong prediction")
    figure.legend(
        handles=[*lines, dotted], loc="outside lower left", ncols=5, fontsize=8, labelcolor=INK, frameon=False
    )
    return figure

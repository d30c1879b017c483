"""A grid of small graphs with their true and predicted classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import Graph, Graphs
from deepcanon.core.plural import counted
from deepcanon.pictures.class_names import class_names
from deepcanon.pictures.graphs import edge_lines, layout
from deepcanon.pictures.style import INK, MUTED, PALETTE, colors, new_figure

COLUMNS = 6
SHOWN = 18
"""How many graphs are shown."""
LARGEST = 200
"""Larger graphs take too long to lay out and are left out."""


def graph_captions(probabilities: Tensor, true: Tensor, labels: Sequence[str]) -> tuple[Tensor, list[str]]:
    """The positions of graphs worth seeing, and their captions: of every class in turn, then the worst mistakes.

    >>> shares = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> graph_captions(shares, torch.tensor([0, 1, 1]), ["ring", "star"])[1]
    ['ring (90%)', 'star (70%)', 'star, predicted ring (80%)']
    """
    names = class_names(labels, probabilities.shape[1])
    predicted = probabilities.argmax(1)
    of_true = probabilities.gather(1, true.unsqueeze(1)).squeeze(1)
    wrong = (predicted != true).nonzero().squeeze(1)
    worst = wrong[of_true[wrong].argsort(stable=True)][: SHOWN // 3].tolist()
    right = [((predicted == true) & (true == c)).nonzero().squeeze(1).tolist() for c in range(len(names))]
    turns = [some[turn] for turn in range(max(map(len, right))) for some in right if turn < len(some)]
    shown = [*turns[: SHOWN - len(worst)], *worst]
    captions = [
        f"{names[true[i]]}{'' if true[i] == predicted[i] else f', predicted {names[predicted[i]]}'} "
        f"({float(probabilities[i].max()):.0%})"
        for i in shown
    ]
    return torch.tensor(shown, dtype=torch.long), captions


def graph_sets(sets: Mapping[str, Graph], title: str = "") -> Figure:
    """The graphs of several unions, one after the other, each with the name of its union and its counts."""
    union = Graph.union(list(sets.values()))
    edges = union.membership()[union.edge_index[0]].bincount(minlength=len(union.parts)) // 2
    names = [name for name, graph in sets.items() for _ in graph.parts]
    captions = [
        f"{name}: {counted(nodes, 'node')}, {counted(count, 'edge')}"
        for name, nodes, count in zip(names, union.parts, edges.tolist(), strict=True)
    ]
    return graph_grid(Graphs(torch.ones(union.nodes, 1, device=union.edge_index.device), union), captions, title)


def graph_grid(batch: Graphs, captions: Sequence[str], title: str = "") -> Figure:
    """Every graph in a panel of its own, laid out by its edges; the color of a node is that of its largest feature."""
    batch = batch.to("cpu")
    columns = min(COLUMNS, max(1, len(batch)))
    lines = math.ceil(len(batch) / columns)
    figure = new_figure(2.0 * columns, 0.4 + 2.1 * max(1, lines), title)
    for place, caption in enumerate(captions):
        one = batch.select(torch.tensor([place]))
        axes = figure.add_subplot(lines, columns, place + 1)
        axes.set_axis_off()
        axes.set_title(caption, fontsize=7, color=PALETTE[1] if ", predicted " in caption else INK)
        if not 0 < one.graph.nodes <= LARGEST:
            axes.text(0.5, 0.5, counted(one.graph.nodes, "node"), ha="center", color=MUTED, transform=axes.transAxes)
            continue
        points = layout(one.graph)
        joined = edge_lines(one.graph, points)
        axes.add_collection(LineCollection(list(joined.numpy()), colors=MUTED, linewidths=0.6, alpha=0.5))
        kinds, scale = one.x.to_dense().argmax(1).tolist(), colors(one.x.shape[1])
        axes.scatter(points[:, 0], points[:, 1], s=22, c=[scale[kind] for kind in kinds], edgecolors="white", lw=0.4)
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.1)
    if batch.x.shape[1] > 1:
        figure.supxlabel("The color of a node is that of its largest feature.", fontsize=7, color=MUTED)
    return figure

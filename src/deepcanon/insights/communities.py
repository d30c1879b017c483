"""Communities of a graph, found from its edges alone, next to the classes of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import AnyBatch, Graph
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.insights._engines.one_graph import one_graph
from deepcanon.pictures.graphs import MOST_LAID_OUT, layout
from deepcanon.pictures.style import MUTED, colors, dress, new_figure

LARGEST = 12
"""How many communities a figure tells apart."""


def communities(batch: AnyBatch, *, clusters: int = 0, influential: int = 5, seed: int = 0) -> Finding:
    r"""Communities by modularity and clusters by the spectrum, compared with the classes, and influential nodes.

    .. math:: Q = \frac1{2m} \sum_{uv} \Big(A_{uv} - \frac{d_u d_v}{2m}\Big) [c_u = c_v], \qquad
              r_v = \frac{1 - \alpha}{n} + \alpha \sum_{u \to v} \frac{r_u}{d_u}

    Q, the modularity, is the share of edges within communities beyond that of random edges with the same degrees;
    the Louvain method looks for the communities of the highest. Spectral clustering cuts the graph into as many parts
    as there are classes, by k-means among the lowest eigenvectors. The adjusted Rand index says how far either agrees
    with the classes: 1 is the same partition, 0 what chance gives. r is PageRank.

    References:
        | Fast unfolding of communities in large networks (Blondel et al., 2008), https://arxiv.org/abs/0803.0476
        | A Tutorial on Spectral Clustering (von Luxburg, 2007), https://arxiv.org/abs/0711.0189

    Arguments:
        batch: A graph, or many, of which the largest is taken.
        clusters: The number of spectral clusters; by default, of classes, or else of communities.
        influential: How many of the nodes of the highest PageRank are listed.
        seed: The seed of both methods.
    """
    at_least(0, clusters=clusters, influential=influential)
    graph, signals = one_graph(batch)
    classes = signals["classes"].argmax(1) if "classes" in signals else None
    found = {"communities": graph.communities(seed=seed)}
    wanted = clusters or int((found["communities"] if classes is None else classes).max()) + 1
    found["spectral clusters"] = graph.spectral_clustering(max(1, min(wanted, graph.nodes)), seed=seed)
    if classes is not None:
        found["classes"] = classes
    rank = graph.influence()
    top = rank.topk(min(influential, graph.nodes)).indices
    numbers: dict[str, Any] = {
        name: {
            "labels": labels.tolist(),
            "number": int(labels.max()) + 1,
            "modularity": graph.modularity(labels),
            "ratio_cut": graph.ratio_cut(labels),
            **({} if classes is None or name == "classes" else {"rand_to_classes": _rand(classes, labels)}),
        }
        for name, labels in found.items()
    }
    numbers["influential"] = [{"node": int(node), "rank": float(rank[node])} for node in top]
    return Finding(numbers, _figure(graph, found, numbers, rank), _sentences(numbers))


def _rand(classes: Tensor, labels: Tensor) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(classes.numpy(), labels.numpy()))


def _sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    says = []
    for name in ("communities", "spectral clusters", "classes"):
        if name in numbers:
            row = numbers[name]
            rand = (
                f"; adjusted Rand index to the classes {row['rand_to_classes']:.2f}" if "rand_to_classes" in row else ""
            )
            says.append(f"The {row['number']} {name} have a modularity of {row['modularity']:.3f}{rand}.")
    if numbers["influential"]:
        listed = ", ".join(f"{each['node']} ({each['rank']:.3g})" for each in numbers["influential"])
        says.append(f"The most influential nodes by PageRank: {listed}.")
    return tuple(says)


def matched(labels: Tensor, others: Tensor) -> Tensor:
    """A partition with its parts numbered as those of another one that they share most nodes with.

    >>> import torch
    >>> matched(torch.tensor([0, 0, 1, 2]), torch.tensor([1, 1, 0, 0]))
    tensor([1, 1, 0, 2])
    """
    from scipy.optimize import linear_sum_assignment

    count = int(max(labels.max(), others.max())) + 1
    shared = (labels * count + others).bincount(minlength=count**2).view(count, count)
    _, numbers = linear_sum_assignment(shared.numpy(), maximize=True)
    found: Tensor = torch.from_numpy(numbers)[labels]
    return found


def _figure(graph: Graph, found: Mapping[str, Tensor], numbers: Mapping[str, Any], rank: Tensor) -> Figure:
    figure = new_figure(3.9 * len(found), 4.2, "Parts of a graph; larger nodes are more influential")
    points = layout(graph) if graph.nodes <= MOST_LAID_OUT else graph.spectral_embedding(min(3, graph.nodes))[:, -2:]
    sizes = (30 + 300 * (rank / rank.max())).numpy() if graph.nodes <= MOST_LAID_OUT else 6.0
    for number, name in enumerate(found, start=1):
        labels = matched(found[name], found.get("classes", found["communities"]))
        axes = figure.add_subplot(1, len(found), number)
        if graph.nodes <= MOST_LAID_OUT:
            for a, b in graph.edge_index.T.tolist():
                if a < b:
                    axes.plot(*points[[a, b]].T.numpy(), color=MUTED, linewidth=0.5, alpha=0.4, zorder=1)
        palette = colors(min(LARGEST, int(labels.max()) + 1))
        shown = [palette[label] if label < len(palette) else MUTED for label in labels.tolist()]
        across, up = points.T.numpy()
        axes.scatter(across, up, s=sizes, c=shown, edgecolors="white", linewidths=0.4, zorder=2)
        dress(axes, f"{numbers[name]['number']} {name}, modularity {numbers[name]['modularity']:.2f}", grid=False)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
    return figure

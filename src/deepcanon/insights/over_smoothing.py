"""Over-smoothing: how alike message passing makes the nodes of a graph, layer by layer and in the limit."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Graph, GraphBatch, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.graph_spectrum import DENSE
from deepcanon.core.many_graphs import Graphs
from deepcanon.core.plural import counted
from deepcanon.pictures.style import INK, PALETTE, dress, legend, new_figure

ALIKE = 0.05
"""A mean frequency below this share of that of the features counts as smoothed away."""


def over_smoothing(model: nn.Module, batch: AnyBatch, *, steps: int = 32) -> Finding:
    r"""The mean frequency of node features after each graph layer, and after repeated averaging without weights.

    .. math:: e(H) = \frac{\operatorname{tr} H^\top L H}{\lVert H \rVert^2}, \qquad
              e(P^k X) \to 0, \quad P = \tilde D^{-1/2} \tilde A \tilde D^{-1/2}, \quad L = I - P

    Each multiplication by P, the messages of GCN, damps the frequency :math:`\lambda` of a signal by
    :math:`1 - \lambda`, so that only what is the same in a whole component, up to the degrees, is left in the end:
    nodes can no longer be told apart. The weights and activations of a network may resist. Both are shown: the features
    under P alone, and what the layers of the model give, those that are called with the graph.

    References:
        | Deeper Insights into Graph Convolutional Networks for Semi-Supervised Learning (Li et al., 2018),
          https://arxiv.org/abs/1801.07606
        | A Note on Over-Smoothing for Graph Neural Networks (Cai and Wang, 2020), https://arxiv.org/abs/2006.13318

    Arguments:
        model: A model of graphs.
        batch: A graph, or many in a union.
        steps: The number of multiplications by P.
    """
    at_least(1, steps=steps)
    if not isinstance(batch, GraphBatch | Graphs):
        raise UsageError(f"over-smoothing is of nodes of a graph; these data are {batch.noun}")
    graph = Graph(batch.graph.edge_index, batch.graph.nodes, batch.graph.weight)
    mean = graph.operator("gcn", torch.float64)
    x = batch.x.to_dense().double()
    plain = []
    for _ in range(steps + 1):
        plain.append(_frequency(x, mean))
        x = mean @ x
    layers = [{"layer": name, "mean_frequency": _frequency(rows, mean)} for name, rows in _layers(model, batch)]
    if graph.nodes <= DENSE:
        gap = 1 - float(torch.linalg.eigvalsh(mean.to_dense()).abs().sort().values[-1 - _parts(graph)])
    else:
        gap = None
    numbers = {"plain": plain, "layers": layers, "spectral_gap": gap}
    return Finding(numbers, _figure(numbers), _sentences(numbers))


def _parts(graph: Graph) -> int:
    return min(graph.nodes - 1, int(graph.components().max()) + 1)


def _frequency(rows: Tensor, mean: Any) -> float:
    """The mean frequency of features: 0 where neighbors are alike up to their degrees."""
    energy = float(rows.square().sum())
    return float((rows * (rows - mean @ rows)).sum()) / energy if energy else 0.0


def _layers(model: nn.Module, batch: AnyBatch) -> list[tuple[str, Tensor]]:
    """The outputs of the layers that are called with features of nodes and the graph, in the order of the calls."""
    twin = copy.deepcopy(model).eval()
    found: list[tuple[str, Tensor]] = []
    names = {part: name for name, part in twin.named_modules()}

    def record(part: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        nodes = batch.graph.nodes  # type: ignore[attr-defined]
        if len(inputs) > 1 and isinstance(output, Tensor) and output.ndim == 2 and len(output) == nodes:
            found.append((names[part] or type(part).__name__, output.detach().double()))

    handles = [part.register_forward_hook(record) for part in twin.modules() if part is not twin]
    try:
        with torch.no_grad():
            twin(*batch.inputs)
    finally:
        for handle in handles:
            handle.remove()
    if not found:
        raise UsageError(
            f"no layer of {type(model).__name__} is called with a graph, so that there is nothing to smooth"
        )
    return found


def _sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    plain, layers = numbers["plain"], numbers["layers"]
    gone = next((step for step, value in enumerate(plain) if value < ALIKE * plain[0]), None)
    left = plain[-1] / (plain[0] or 1)
    same = plain[min(len(layers), len(plain) - 1)]
    says = [
        f"Averaged over neighbors, features are smoothed away after {counted(gone, 'step')}."
        if gone
        else f"After {len(plain) - 1} averages over neighbors {left:.0%} of the mean frequency is left.",
        f"The {counted(len(layers), 'layer')} of the model lead from a mean frequency of {plain[0]:.3g} "
        f"to {layers[-1]['mean_frequency']:.3g}; as many plain averages to {same:.3g}.",
    ]
    return tuple(says)


def _figure(numbers: Mapping[str, Any]) -> Figure:
    figure = new_figure(7.2, 3.9, "How alike the nodes of a graph become")
    axes = figure.subplots()
    plain, layers = numbers["plain"], [numbers["plain"][0], *(each["mean_frequency"] for each in numbers["layers"])]
    floor = 1e-12
    axes.plot(
        range(len(plain)), [max(value, floor) for value in plain], color=INK, linewidth=1.2, label="plain averages"
    )
    axes.plot(range(len(layers)), [max(value, floor) for value in layers], "o-", color=PALETTE[0], label="the model")
    axes.set_yscale("log")
    dress(axes, "Mean frequency of the features of nodes", "steps of message passing", "0: all neighbors alike")
    legend(axes)
    return figure

"""The spectrum of a graph, and at which of its frequencies classes and features live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from deepcanon.core import AnyBatch
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.graph_spectrum import DENSE
from deepcanon.core.plural import counted
from deepcanon.insights._engines.one_graph import one_graph
from deepcanon.pictures.style import INK, PALETTE, dress, legend, new_figure


def graph_spectrum(batch: AnyBatch, *, frequencies: int = 60) -> Finding:
    r"""The frequencies of a graph's Laplacian, and the share of classes and features that the lowest hold.

    .. math:: L = I - D^{-1/2} A D^{-1/2} = Q \Lambda Q^\top, \qquad
              s(\lambda) = \frac{\sum_{\lambda_i \le \lambda} \lVert q_i^\top X \rVert^2}{\lVert X \rVert^2}, \qquad
              \frac{\operatorname{tr} X^\top L X}{\lVert X \rVert^2}

    The number of zero eigenvalues is that of the connected components. A signal X, the classes one-hot or the
    features, each centered, that lives at low frequencies is alike at neighbors (homophily): message passing, which is
    a low-pass filter, helps. The last quantity is its mean frequency; that of random numbers is 1 where every node has
    an edge. Up to some hundred nodes all frequencies are shown, of larger graphs the lowest.

    References:
        | The Emerging Field of Signal Processing on Graphs (Shuman et al., 2013), https://arxiv.org/abs/1211.0053
        | Revisiting Graph Neural Networks: All We Have is Low-Pass Filters (Nt and Maehara, 2019),
          https://arxiv.org/abs/1905.09550

    Arguments:
        batch: A graph, or many, of which the largest is taken.
        frequencies: How many of the lowest frequencies of a large graph are found.
    """
    at_least(2, frequencies=frequencies)
    graph, signals = one_graph(batch)
    k = graph.nodes if graph.nodes <= DENSE else min(frequencies, graph.nodes - 1)
    spectrum = graph.spectrum(k, "symmetric_laplacian")
    laplacian = graph.laplacian("symmetric")
    shares, means = {}, {}
    for name, signal in signals.items():
        rows = signal.double() - signal.double().mean(0)
        energy = float(rows.square().sum()) or 1.0
        shares[name] = (spectrum.transform(rows).square().sum(1).cumsum(0) / energy).tolist()
        means[name] = float((rows * (laplacian @ rows)).sum()) / energy
    numbers: dict[str, Any] = {
        "nodes": graph.nodes,
        "edges": graph.edge_index.shape[1],
        "components": int(graph.components().max()) + 1,
        "frequencies": spectrum.values.tolist(),
        "shares": shares,
        "mean_frequency": means,
    }
    return Finding(numbers, _figure(numbers), _sentences(numbers))


def _sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    values = numbers["frequencies"]
    says = [
        f"{counted(numbers['nodes'], 'node')} in {counted(numbers['components'], 'component')}; "
        f"the lowest frequency above 0 is {next((v for v in values if v > 1e-9), 0.0):.3g}."
    ]
    for name, mean in numbers["mean_frequency"].items():
        kind = "low: alike at neighbors" if mean < 0.7 else "high: unlike at neighbors" if mean > 1.3 else "like noise"
        says.append(f"The mean frequency of the {name} is {mean:.2f} on a scale to 2, {kind}.")
    return tuple(says)


def _figure(numbers: Mapping[str, Any]) -> Figure:
    figure = new_figure(9.6, 3.7, "The frequencies of a graph, and where its classes and features live")
    left, right = figure.subplots(1, 2)
    values = numbers["frequencies"]
    left.plot(range(1, len(values) + 1), values, "o", color=PALETTE[0], markersize=3)
    left.set_ylim(bottom=-0.03)
    dress(left, "Eigenvalues of the Laplacian", "number", "frequency")
    for color, (name, shares) in zip(PALETTE, numbers["shares"].items(), strict=False):
        right.step([0.0, *values], [0.0, *shares], where="post", color=color, label=name)
    right.plot([0, values[-1]], [0, len(values) / numbers["nodes"]], color=INK, linewidth=0.8, label="random numbers")
    right.set_ylim(0, 1.02)
    dress(right, "Share of a signal up to a frequency", "frequency", "share")
    legend(right)
    return figure

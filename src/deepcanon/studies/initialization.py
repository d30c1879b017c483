"""Weight initialization: training from equal, too large, too small and well-scaled initial weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import Labeled, Model
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.insights.signal_propagation import signals
from deepcanon.nn.activations import Activation
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import (
    CERTAIN,
    alike,
    classification,
    draw_band,
    interval,
    listed,
    steps_of,
    tuning,
)
from deepcanon.train.randomness import kept, seed_torch

GROUPS = {
    "all equal": ("zero", "constant:value=0.05", "constant:value=1"),
    "large": ("signs:value=1", "normal:std=1", "uniform:bound=1"),
    "small": ("signs:value=0.1", "normal:std=0.1", "uniform:bound=0.1"),
    "by fan": ("fan_in", "xavier_uniform", "kaiming_normal"),
}
"""The initializations, from naive to good."""

SHOWN = ("constant:value=0.05", "normal:std=1", "uniform:bound=0.1", "xavier_uniform", "kaiming_normal")
"""The initializations whose signals are drawn layer by layer."""

LOWEST, HIGHEST, BINS = -6.0, 6.0, 96
"""The range of a histogram of signals in powers of ten, and its number of bins."""

TOP = 5.0
"""The highest loss that a curve shows, well above that of uniform probabilities of ten classes."""


def initialization(
    mlp: type[Model[Any]],
    *,
    data: str = "digits",
    depth: int = 4,
    width: int = 32,
    activation: Activation = "relu",
    epochs: int = 15,
    seeds: int = 6,
    seed: int = 0,
) -> Finding:
    r"""Training from twelve weight initializations: constants, large and small random numbers, Xavier, Kaiming.

    Equal weights make equal units, and gradients that keep them equal. With independent weights of variance
    :math:`\sigma^2` the mean square of a signal changes in a layer of :math:`N` inputs from ReLUs by

    .. math:: \frac{E[z_l^2]}{E[z_{l-1}^2]} = \frac{N \sigma^2}{2}

    and so does that of a gradient in the backward pass. Only :math:`\sigma^2 = 2 / N` keeps both.
    Each initialization is trained by stochastic gradient descent at the learning rate that is best for it.

    References:
        | Understanding the difficulty of training deep feedforward neural networks (Glorot and Bengio, 2010),
          https://proceedings.mlr.press/v9/glorot10a.html
        | Delving deep into rectifiers (He et al., 2015), https://arxiv.org/abs/1502.01852

    Arguments:
        mlp: The model.
        data: The data set by name; its examples have classes.
        depth: The number of hidden layers.
        width: The units of each hidden layer.
        activation: The activation by name.
        epochs: How often a training goes through the data.
        seeds: How often each initialization is drawn.
        seed: The seed of the random numbers.
    """
    at_least(1, depth=depth, width=width, epochs=epochs)
    at_least(2, seeds=seeds)
    loaded = load_data(data)
    some = loaded.train.select(torch.arange(min(256, len(loaded.train))))
    results: dict[str, dict[str, Any]] = {}
    for name in (name for group in GROUPS.values() for name in group):

        def network(name: str = name) -> Model[Any]:
            return mlp(
                features=loaded.sizes["features"], classes=loaded.sizes["classes"], hidden=(width,) * depth,
                activation=activation, initialize=name,
            )  # fmt: skip

        with kept():
            seed_torch(seed)
            before = _signals(network(), some, seed)
        found, trained = classification(network, loaded, steps=steps_of(loaded, epochs), seeds=seeds, seed=seed)
        results[name] = before | found | {"variety": [_variety(model) for model in trained]}
    settings = (
        f"{loaded.name}, {counted(depth, 'hidden layer')} of {counted(width, 'unit')}, {activation}; {tuning(epochs)}; "
        f"test accuracies are means over {counted(seeds, 'seed')} with {CERTAIN}"
    )
    numbers = {"settings": settings, "chance": 1 / loaded.sizes["classes"], "initializations": results}
    return concluded(numbers, sentences, draw)


def _signals(model: nn.Module, batch: Labeled, seed: int) -> dict[str, Any]:
    layers = signals(model, batch, seed=seed).layers
    gradients = [layer.gradient for layer in layers if layer.gradient is not None]
    return {
        "forward": [layer.values.double().square().mean().item() for layer in layers],
        "backward": [gradient.double().square().mean().item() for gradient in gradients],
        "forward_histograms": [_histogram(layer.values) for layer in layers],
        "backward_histograms": [_histogram(gradient) for gradient in gradients],
    }


def _histogram(values: Tensor) -> list[float]:
    """The shares of the values in each bin of the logarithm of their size; zeros are in none."""
    sizes = values.double().abs().log10().clamp(min=LOWEST - 1)
    counts = torch.histc(sizes.clamp(max=HIGHEST), BINS, LOWEST, HIGHEST)
    return [float(share) for share in counts / values.numel()]


def _variety(model: nn.Module) -> float:
    """The variance of the first layer's weights over its units, divided by their mean square; 0 if all are equal."""
    weight = next(layer.weight for layer in model.modules() if isinstance(layer, nn.Linear)).detach().double()
    size = weight.square().mean().item()
    return weight.var(0, correction=0).mean().item() / size if size else 0.0


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Which initializations train best at their best rate, and which not at all."""
    results = numbers["initializations"]
    accuracies = {name: result["accuracies"] for name, result in results.items()}
    best = alike(accuracies)
    failed = [name for name in results if fmean(accuracies[name]) < 2 * numbers["chance"]]
    if len(best) == 1:
        first = f"Each initialization at its best rate: {best[0]} trains best, to {_reached(results[best[0]])}"
    else:
        first = (
            f"Each initialization at its best rate: {listed(best)} cannot be told apart, {best[0]} with "
            f"{_reached(results[best[0]])}"
        )
    if failed:
        first += f"; {listed(failed)} {'do' if len(failed) > 1 else 'does'} not train at any"
    return (
        f"{first}.",
        *(
            f"{group.capitalize()}: {', '.join(f'{name} {_reached(results[name])}' for name in names)}."
            for group, names in GROUPS.items()
        ),
    )


def _reached(result: Mapping[str, Any]) -> str:
    middle, width = interval(result["accuracies"])
    return f"{middle:.1%} ± {width:.1%} at rate {result['rate']:g}"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The learning from each initialization, and the signals and gradients of some before training."""
    results = numbers["initializations"]
    figure = new_figure(12.5, 9.0)
    grid = figure.add_gridspec(3, 20, height_ratios=(1.5, 1, 1))
    columns = [slice(0, 5), slice(5, 10), slice(10, 15), slice(15, 20)]
    for column, (group, names) in zip(columns, GROUPS.items(), strict=True):
        _curves(figure.add_subplot(grid[0, column]), group, {name: results[name] for name in names})
    for number, name in enumerate(SHOWN):
        column = slice(4 * number, 4 * number + 4)
        for row, (way, color) in enumerate((("forward", PALETTE[0]), ("backward", PALETTE[1])), start=1):
            axes = figure.add_subplot(grid[row, column])
            _ridges(axes, results[name][f"{way}_histograms"], color)
            sign = "|z|" if way == "forward" else "|∂L/∂z|"
            dress(axes, name if row == 1 else "", f"size {sign}", _side(way) if number == 0 else "", grid=False)
    return figure


def _side(way: str) -> str:
    return "layer (signals)" if way == "forward" else "layer (gradients)"


def _curves(axes: Axes, group: str, results: Mapping[str, Mapping[str, Any]]) -> None:
    for (name, result), color in zip(results.items(), PALETTE, strict=False):
        draw_band(axes, result["steps"], result["curves"], color, f"{name}\n{_reached(result)}")
    axes.set_ylim(-0.1, TOP + 0.1)
    dress(axes, group.capitalize(), "step", "training loss in nats" if group == "all equal" else "")
    legend(axes).set_loc("upper right")


def _ridges(axes: Axes, histograms: Sequence[Sequence[float]], color: str) -> None:
    """One histogram above the other, the first layer on top."""
    edges = torch.linspace(LOWEST, HIGHEST, BINS + 1)
    middles = (10 ** ((edges[1:] + edges[:-1]) / 2)).tolist()
    count = len(histograms)
    for layer, histogram in enumerate(histograms):
        base = float(count - layer)
        axes.axhline(base, color=MUTED, linewidth=0.4)
        if not any(histogram):
            axes.text(1.0, base + 0.25, "all zero", fontsize=7, color=MUTED, ha="center")
            continue
        heights = [base + 0.85 * share / max(histogram) for share in histogram]
        axes.fill_between(middles, base, heights, color=color, alpha=0.75, linewidth=0)
    axes.set_xscale("log")
    axes.set_xlim(10**LOWEST, 10**HIGHEST)
    axes.set_xticks([1e-6, 1e-3, 1.0, 1e3, 1e6])
    axes.set_yticks(range(count, 0, -1), [str(layer) for layer in range(1, count + 1)])
    axes.set_ylim(0.9, count + 1)

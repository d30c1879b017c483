"""Activation functions: their properties, and the training of deep networks with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any, get_args

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import Model
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.insights.signal_propagation import signals
from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
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

NAMES: tuple[Activation, ...] = tuple(name for name in get_args(Activation) if name not in ("softmax", "swish"))
"""The elementwise activations; Swish begins as the SiLU, and its properties are those."""

COMPARED = ("sigmoid", "tanh", "relu", "elu", "selu", "silu")
"""The activations whose learning curves are drawn."""

FAR, FLAT = 1e3, 1e-5
"""The input at which saturation is tested, and the derivative below which it counts as saturated."""


def activations(
    mlp: type[Model[Any]],
    *,
    data: str = "digits",
    depth: int = 5,
    width: int = 32,
    epochs: int = 20,
    seeds: int = 6,
    seed: int = 0,
) -> Finding:
    r"""Activation functions: their values, derivatives and saturation, and how a deep network trains with each.

    Measured are :math:`\sigma(0)`; the derivative to either side of 0; the bound :math:`\sup |\sigma'|`, by which a
    layer can at most multiply a gradient; and where the activation saturates, :math:`\sigma'(x) \to 0`. Through
    :math:`L` layers the activations multiply a gradient by at most the following, where the logistic function has the
    bound 1/4 (vanishing gradients):

    .. math:: \left( \sup |\sigma'| \right)^L = 4^{-L}

    Networks are trained by stochastic gradient descent, with each activation at the learning rate that is best for it
    on validation data, and from weights that keep the size of its signals: their variance is
    :math:`1 / (N\, \mathrm E[\sigma(z)^2])` for :math:`N` inputs of a layer and :math:`z \sim N(0, 1)`. Binary units
    show the derivative of their straight-through estimator.

    References:
        | Understanding the difficulty of training deep feedforward neural networks (Glorot and Bengio, 2010),
          https://proceedings.mlr.press/v9/glorot10a.html
        | Self-normalizing neural networks (Klambauer et al., 2017), https://arxiv.org/abs/1706.02515
        | Searching for activation functions (Ramachandran et al., 2017), https://arxiv.org/abs/1710.05941

    Arguments:
        mlp: The model.
        data: The data set by name; its examples have classes.
        depth: The number of hidden layers.
        width: The units of each hidden layer.
        epochs: How often a training goes through the data.
        seeds: From how many initial weights each activation is trained.
        seed: The seed of the random numbers.
    """
    at_least(1, depth=depth, width=width, epochs=epochs)
    at_least(2, seeds=seeds)
    loaded = load_data(data)
    some = loaded.train.select(torch.arange(min(256, len(loaded.train))))
    results: dict[str, dict[str, Any]] = {}
    for name in NAMES:

        def network(name: Activation = name) -> Model[Any]:
            return mlp(
                features=loaded.sizes["features"], classes=loaded.sizes["classes"], hidden=(width,) * depth,
                activation=name, initialize=f"kaiming_normal:gain={gain(activation_layer(name))}",
            )  # fmt: skip

        with kept():
            seed_torch(seed)
            gradients = [layer.gradient for layer in signals(network(), some, seed=seed).layers]
        trained, _ = classification(network, loaded, steps=steps_of(loaded, epochs), seeds=seeds, seed=seed)
        results[name] = properties(activation_layer(name)) | {
            "backward": [0.0 if g is None else g.double().square().mean().item() for g in gradients],
            **trained,
        }
    settings = (
        f"{loaded.name}, {counted(depth, 'hidden layer')} of {counted(width, 'unit')}; {tuning(epochs)}; initial "
        f"weights that keep the size of signals; test accuracies are means over {counted(seeds, 'seed')} with {CERTAIN}"
    )
    numbers = {
        "settings": settings,
        "depth": depth,
        "chance": 1 / loaded.sizes["classes"],
        "activations": results,
    }
    return concluded(numbers, sentences, draw)


def gain(activation: nn.Module) -> float:
    """What weights are multiplied by so that standard normal signals keep their mean square through the activation.

    >>> gain(nn.ReLU()), gain(nn.Identity())
    (1.4142, 1.0)
    """
    z = torch.linspace(-12, 12, 24_001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2)
    size = float((_value(activation, z).square() * density).sum() / density.sum())
    return round(1 / math.sqrt(size), 4)


def properties(activation: nn.Module) -> dict[str, Any]:
    """The value at 0, the derivatives left and right of 0, the bound of the derivative, and where it saturates.

    >>> properties(nn.ReLU())
    {'at_zero': 0.0, 'slope_at_zero': [0.0, 1.0], 'bound': 1.0, 'saturates': 'left'}
    """
    near = torch.linspace(-12, 12, 48_001, dtype=torch.float64)
    left, right = _slope(activation, torch.tensor([-1e-9, 1e-9], dtype=torch.float64)).tolist()
    low, high = (_slope(activation, torch.tensor([-FAR, FAR], dtype=torch.float64)).abs() < FLAT).tolist()
    return {
        "at_zero": _value(activation, torch.zeros(1, dtype=torch.float64)).item(),
        "slope_at_zero": [left, right],
        "bound": _slope(activation, near).abs().max().item(),
        "saturates": "both sides" if low and high else "left" if low else "right" if high else "no",
    }


def _value(activation: nn.Module, x: Tensor) -> Tensor:
    value: Tensor = activation.eval().double()(x)
    return value.detach()


def _slope(activation: nn.Module, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    slope: Tensor = torch.autograd.grad(activation.eval().double()(x).sum(), x)[0]
    return slope


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Which activations reach the best accuracy, which do not train, and what each is."""
    results = numbers["activations"]
    accuracies = {name: result["accuracies"] for name, result in results.items()}
    best = alike(accuracies)
    middle, width = interval(accuracies[best[0]])
    if len(best) == 1:
        first = f"{best[0]} is best, with {middle:.1%} ± {width:.1%}"
    else:
        first = f"{listed(best)} cannot be told apart, {best[0]} with {middle:.1%} ± {width:.1%}"
    failed = [name for name, found in accuracies.items() if fmean(found) < 2 * numbers["chance"]]
    worse = [name for name in accuracies if name not in best and name not in failed]
    first = f"{counted(numbers['depth'], 'layer')}, each activation at its best rate: {first}"
    if worse:
        first += f"; {listed(worse)} {'are' if len(worse) > 1 else 'is'} worse"
    if failed:
        first += f"; {listed(failed)} {'do' if len(failed) > 1 else 'does'} not train at any rate"
    return (f"{first}.", *(f"{name}: {_words(result)}; {_reached(result)}." for name, result in results.items()))


def _reached(result: Mapping[str, Any]) -> str:
    middle, width = interval(result["accuracies"])
    return f"{middle:.1%} ± {width:.1%} at rate {result['rate']:g}"


def _words(result: Mapping[str, Any]) -> str:
    left, right = result["slope_at_zero"]
    slope = f"{right:.3g}" if abs(left - right) < 1e-6 else f"{left:.3g}|{right:.3g}"
    saturation = {"no": "never saturates"}.get(result["saturates"], f"saturates {result['saturates']}")
    return f"f(0) = {result['at_zero']:.3g}, f'(0) = {slope}, |f'| ≤ {result['bound']:.3g}, {saturation}"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """A portrait of each activation, and the learning and the gradients of some."""
    results = numbers["activations"]
    figure = new_figure(12.0, 13.4)
    grid = figure.add_gridspec(5, 4, height_ratios=(1, 1, 1, 1, 1.35))
    portraits = [figure.add_subplot(grid[number // 4, number % 4]) for number in range(len(results))]
    for axes, (name, result) in zip(portraits, results.items(), strict=True):
        _portrait(axes, name, result)
    legend(portraits[0]).set_loc("lower right")
    learning, gradient = figure.add_subplot(grid[4, :2]), figure.add_subplot(grid[4, 2:])
    for name, color in zip(COMPARED, PALETTE, strict=False):
        result = results[name]
        draw_band(learning, result["steps"], result["curves"], color, f"{name}, rate {result['rate']:g}")
        layers = range(1, len(result["backward"]) + 1)
        gradient.plot(layers, result["backward"], "-o", color=color, markersize=4, label=name)
    learning.set_ylim(-0.1, 1.6 * -math.log(numbers["chance"]))
    dress(learning, "Learning at the best rate of each: mean and range", "step", "training loss in nats")
    gradient.set_yscale("log")
    dress(gradient, "Gradients before training", "layer", "mean square E[(∂L/∂z)²]")
    legend(learning)
    legend(gradient)
    return figure


def _portrait(axes: Axes, name: str, result: Mapping[str, Any]) -> None:
    x = torch.linspace(-4, 4, 802, dtype=torch.float64)  # 0, where some jump, lies between two points
    layer = activation_layer(name)  # type: ignore[arg-type]
    axes.axhline(0, color=MUTED, linewidth=0.5)
    axes.axvline(0, color=MUTED, linewidth=0.5)
    axes.plot(x.tolist(), _slope(layer, x).tolist(), "--", color=PALETTE[1], linewidth=1.2, label="f'")
    axes.plot(x.tolist(), _value(layer, x).tolist(), color=PALETTE[0], linewidth=1.8, label="f")
    axes.set_xlim(-4, 4)
    axes.set_ylim(-2, 3.6)
    dress(axes, f"{name}\n{_reached(result)}")
    value, slope, bound, saturation = _words(result).split(", ")
    words = f"{value}, {slope}\n{bound}, {saturation}"
    axes.text(0.02, 0.97, words, transform=axes.transAxes, fontsize=7, color=INK, va="top")

"""Activation functions: their properties, and the training of deep networks with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import Model
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.data import load_data
from deepcanon.insights.signal_propagation import signals
from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.learning_curves import learning_curve
from deepcanon.train import evaluate

NAMES: tuple[Activation, ...] = tuple(name for name in get_args(Activation) if name != "softmax")
"""The elementwise activations."""

COMPARED = ("sigmoid", "tanh", "relu", "elu", "selu", "silu")
"""The activations whose learning curves are drawn."""

FAR, FLAT = 1e3, 1e-5
"""The input at which saturation is tested, and the derivative below which it counts as saturated."""


def activations(
    mlp: type[Model[Any]],
    *,
    data: str = "digits",
    depth: int = 5,
    width: int = 64,
    initialize: str = "xavier_normal",
    lr: float = 0.05,
    epochs: int = 15,
    seed: int = 0,
) -> Finding:
    r"""Activation functions: their values, derivatives and saturation, and how a deep network trains with each.

    Measured are :math:`\sigma(0)`; the derivative to either side of 0; the bound :math:`\sup |\sigma'|`, by which a
    layer can at most multiply a gradient; and where the activation saturates, :math:`\sigma'(x) \to 0`. Through
    :math:`L` layers the activations multiply a gradient by at most the following, where the logistic function has the
    bound 1/4 (vanishing gradients):

    .. math:: \left( \sup |\sigma'| \right)^L = 4^{-L}

    Binary units show the derivative of their straight-through estimator.

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
        initialize: The initialization by name, the same for all.
        lr: The learning rate of stochastic gradient descent, the same for all.
        epochs: How often the training goes through the data.
        seed: The seed of the random numbers.
    """
    at_least(1, depth=depth, width=width, epochs=epochs)
    loaded = load_data(data)
    some = loaded.train.select(torch.arange(min(256, len(loaded.train))))
    results: dict[str, dict[str, Any]] = {}
    for name in NAMES:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = mlp(
                features=loaded.sizes["features"], classes=loaded.sizes["classes"], hidden=(width,) * depth,
                activation=name, initialize=initialize,
            )  # fmt: skip
        gradients = [layer.gradient for layer in signals(model, some, seed=seed).layers]
        curve = learning_curve(model, loaded, optimizer="sgd", lr=lr, epochs=epochs, seed=seed)
        results[name] = properties(activation_layer(name)) | {
            "backward": [0.0 if g is None else g.double().square().mean().item() for g in gradients],
            "steps": curve.steps,
            "losses": curve.losses,
            "accuracy": None if curve.diverged else evaluate(model, loaded.split("test"))["accuracy"],
        }
    numbers = {"depth": depth, "data": loaded.name, "activations": results}
    return Finding(numbers, _figure(numbers), tuple(_sentence(name, result) for name, result in results.items()))


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


def _sentence(name: str, result: Mapping[str, Any]) -> str:
    accuracy = result["accuracy"]
    return f"{name}: {_words(result)}; {'diverges' if accuracy is None else f'reaches {accuracy:.1%}'}."


def _words(result: Mapping[str, Any]) -> str:
    left, right = result["slope_at_zero"]
    slope = f"{right:.3g}" if abs(left - right) < 1e-6 else f"{left:.3g}|{right:.3g}"
    saturation = {"no": "never saturates"}.get(result["saturates"], f"saturates {result['saturates']}")
    return f"f(0) = {result['at_zero']:.3g}, f'(0) = {slope}, |f'| ≤ {result['bound']:.3g}, {saturation}"


def _figure(numbers: Mapping[str, Any]) -> Figure:
    results = numbers["activations"]
    reached = {name: result["accuracy"] for name, result in results.items() if result["accuracy"] is not None}
    best = max(reached, key=lambda name: reached[name])
    figure = new_figure(
        12.0, 13.0, f"Activations, their derivatives, and the accuracy of {numbers['depth']} layers: {best} is best"
    )
    grid = figure.add_gridspec(5, 4, height_ratios=(1, 1, 1, 1, 1.35))
    portraits = [figure.add_subplot(grid[number // 4, number % 4]) for number in range(len(results))]
    for axes, (name, result) in zip(portraits, results.items(), strict=True):
        _portrait(axes, name, result)
    legend(portraits[0]).set_loc("lower right")
    learning, gradient = figure.add_subplot(grid[4, :2]), figure.add_subplot(grid[4, 2:])
    for name, color in zip(COMPARED, PALETTE, strict=False):
        result = results[name]
        learning.plot(result["steps"], result["losses"], color=color, label=name)
        layers = range(1, len(result["backward"]) + 1)
        gradient.plot(layers, result["backward"], "-o", color=color, markersize=4, label=name)
    dress(learning, "Learning", "step", "training loss in nats")
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
    axes.set_ylim(-2, 3)
    accuracy = result["accuracy"]
    dress(axes, f"{name}: {'diverges' if accuracy is None else f'{accuracy:.1%}'}")
    value, slope, bound, saturation = _words(result).split(", ")
    words = f"{value}, {slope}\n{bound}, {saturation}"
    axes.text(0.02, 0.97, words, transform=axes.transAxes, fontsize=7, color=INK, va="top")

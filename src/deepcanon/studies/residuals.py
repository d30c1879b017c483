"""Residual (skip) connections: training at depths at which plain networks fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn
from torch.func import jacrev

from deepcanon.core import Labeled, Model, Terms, drawing_from
from deepcanon.core.checks import at_least, flat
from deepcanon.core.finding import Finding
from deepcanon.data import load_data
from deepcanon.nn.connections import Residual
from deepcanon.nn.initialize import initialize
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.learning_curves import learning_curve

Kind = Literal["plain", "residual"]
KINDS: tuple[Kind, ...] = ("plain", "residual")

SMALLEST = 1e-12
"""Singular values below this are rounding errors of single-precision weights, and drawn as this."""


class DeepClassifier(Model[Labeled]):
    r"""A deep multilayer perceptron with layers of one width, plain or with a skip connection around each.

    A layer is :math:`f(h) = W \max(0, h) + b`. Each kind has a suitable initialization: Kaiming's keeps the size of
    signals in a plain network; with skip connections the weights are smaller by the square root of the depth.

    Arguments:
        features: The number of features of an example.
        classes: The number of classes.
        kind: "plain" or "residual".
        depth: The number of layers.
        width: The units of each layer.
    """

    def __init__(self, features: int, classes: int, kind: Kind, depth: int, width: int) -> None:
        super().__init__()
        self.features = features
        self.entrance = nn.Linear(features, width)
        self.layers = nn.Sequential(*(_layer(kind, depth, width) for _ in range(depth)))
        self.exit = nn.Linear(width, classes)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(8, 3, generator=Generator().manual_seed(0))
        return cls(3, 2, "residual", 2, 4), Labeled(x, (x[:, 0] > 0).long())

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.exit(self.layers(self.entrance(flat(x, self.features))))
        return logits

    def loss(self, batch: Labeled) -> Terms:
        return {"nll": F.cross_entropy(self(batch.x), batch.y)}


def residuals(
    *,
    data: str = "digits",
    depths: tuple[int, ...] = (5, 10, 20, 35, 50),
    width: int = 32,
    lr: float = 0.02,
    epochs: int = 10,
    seed: int = 0,
) -> Finding:
    r"""The trainable depth of networks with residual (skip) connections and without.

    A residual layer passes its gradient back unchanged, and adds to it:

    .. math:: h_l = h_{l-1} + f_l(h_{l-1}), \qquad
        \frac{\partial h_l}{\partial h_{l-1}} = I + \frac{\partial f_l}{\partial h_{l-1}}

    so that the Jacobian of all layers, which in a plain network is a product with vanishing singular values but for a
    few, stays near the identity. All networks are trained by the same plain stochastic gradient descent.

    References:
        | Deep residual learning for image recognition (He et al., 2016), https://arxiv.org/abs/1512.03385
        | Identity mappings in deep residual networks (He et al., 2016), https://arxiv.org/abs/1603.05027

    Arguments:
        data: The data set by name; its examples have classes.
        depths: The numbers of layers.
        width: The units of each layer.
        lr: The learning rate, the same for all.
        epochs: How often the training goes through the data.
        seed: The seed of the random numbers.
    """
    at_least(1, depths=min(depths, default=0), width=width, epochs=epochs)
    loaded = load_data(data)
    some = loaded.train.select(torch.arange(min(128, len(loaded.train))))
    results: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        result: dict[str, Any] = {"final_loss": []}
        for depth in sorted(depths):
            with drawing_from(Generator().manual_seed(seed)):
                model = DeepClassifier(loaded.sizes["features"], loaded.sizes["classes"], kind, depth, width)
            result["gradients"] = gradients(model, some)
            result["singular_values"] = singular_values(model, some.x[:1])
            curve = learning_curve(model, loaded, optimizer="sgd", lr=lr, batch_size=64, epochs=epochs, seed=seed)
            last = curve.losses[-max(1, len(curve.losses) // epochs) :]
            result["final_loss"].append(math.inf if curve.diverged else sum(last) / len(last))
            result |= {"steps": curve.steps, "losses": curve.losses}
        results[kind] = result
    numbers = {
        "depths": sorted(depths),
        "uniform": math.log(loaded.sizes["classes"]),
        "identity_error": identity_error(width, seed),
        "kinds": results,
    }
    says = tuple(
        f"{kind.capitalize()}: at {max(depths)} layers the loss ends at {result['final_loss'][-1]:.3f} nats "
        f"(uniform probabilities have {numbers['uniform']:.3f})."
        for kind, result in results.items()
    )
    return Finding(numbers, _figure(numbers), says)


def gradients(model: DeepClassifier, batch: Labeled) -> list[float]:
    """The mean square of the gradient of the loss with respect to the output of each layer, the first layer first."""
    with torch.enable_grad():
        states = [model.entrance(flat(batch.x, model.features))]
        for layer in model.layers:
            states.append(layer(states[-1]))
        loss = F.cross_entropy(model.exit(states[-1]), batch.y, reduction="sum")
        found = torch.autograd.grad(loss, states)
    return [gradient.double().square().mean().item() for gradient in found]


def singular_values(model: DeepClassifier, x: Tensor) -> list[float]:
    """The singular values of the Jacobian of all layers together, the largest first."""
    state = model.entrance(flat(x, model.features)).detach()[0]
    jacobian = torch.eye(len(state), dtype=torch.float64)
    for layer in model.layers:
        jacobian = jacrev(layer)(state).detach().double() @ jacobian
        state = layer(state).detach()
    values: list[float] = torch.linalg.svdvals(jacobian).tolist()
    return values


def identity_error(width: int, seed: int) -> float:
    """The largest difference between the Jacobian of a residual layer and I plus that of its residual function."""
    with drawing_from(Generator().manual_seed(seed)):
        inner = nn.Sequential(nn.Linear(width, width), nn.Tanh()).double()
        x = torch.randn(width, dtype=torch.float64)
    difference = jacrev(Residual(inner))(x) - torch.eye(width, dtype=torch.float64) - jacrev(inner)(x)
    return float(difference.detach().abs().max())


def _layer(kind: Kind, depth: int, width: int) -> nn.Module:
    inner = nn.Sequential(nn.ReLU(), nn.Linear(width, width))
    initialize(inner, f"kaiming_normal:gain={math.sqrt(2 / depth if kind == 'residual' else 2)}")
    return Residual(inner) if kind == "residual" else inner


def _figure(numbers: Mapping[str, Any]) -> Figure:
    deepest = numbers["depths"][-1]
    plain, residual = (numbers["kinds"][kind]["final_loss"][-1] for kind in KINDS)
    figure = new_figure(
        11.5, 7.0, f"{deepest} layers train with skip connections: {residual:.2f} nats, compared with {plain:.2f}"
    )
    (learning, depth), (gradient, stretch) = figure.subplots(2, 2)
    for (kind, result), color in zip(numbers["kinds"].items(), PALETTE, strict=False):
        learning.plot(result["steps"], result["losses"], color=color, label=kind)
        depth.plot(numbers["depths"], result["final_loss"], "-o", color=color, markersize=5, label=kind)
        gradient.plot(range(deepest + 1), result["gradients"], color=color, label=kind)
        values = result["singular_values"]
        stretch.plot(range(1, len(values) + 1), [max(value, SMALLEST) for value in values], "o-", color=color,
                     markersize=3.5, linewidth=1, label=kind)  # fmt: skip
    for axes in (learning, depth):
        axes.axhline(numbers["uniform"], color=MUTED, linewidth=0.8, linestyle="--", label="uniform probabilities")
        axes.set_ylim(-0.05, 1.3 * numbers["uniform"])
    _finish(learning, f"Learning with {deepest} layers", "step", "training loss in nats")
    _finish(depth, "Loss of the last epoch, by depth", "number of layers", "training loss in nats")
    gradient.set_yscale("log")
    _finish(gradient, f"Before training: gradients in {deepest} layers", "layer", "mean square E[(∂L/∂h)²]")
    stretch.set_yscale("log")
    _finish(stretch, f"Singular values of the Jacobian of {deepest} layers", "number", "singular value of ∂h/∂h₀")
    return figure


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    dress(axes, title, x, y)
    legend(axes)

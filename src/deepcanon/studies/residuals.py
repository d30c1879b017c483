"""Residual (skip) connections: training at depths at which plain networks fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
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
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.nn.connections import Residual
from deepcanon.nn.initialize import initialize
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, classification, draw_band, interval, steps_of, tuning

Kind = Literal["plain", "residual"]
KINDS: tuple[Kind, ...] = ("plain", "residual")

RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
"""The learning rates with which the search for the best one of each depth begins."""

NETWORKS, INPUTS = 20, 64
"""So many random networks and inputs are averaged over for the size of signals."""

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
    depths: tuple[int, ...] = (5, 10, 20, 40),
    width: int = 32,
    epochs: int = 8,
    seeds: int = 4,
    seed: int = 0,
) -> Finding:
    r"""The trainable depth of networks with residual (skip) connections and without.

    A residual layer passes its gradient back unchanged, and adds to it:

    .. math:: h_l = h_{l-1} + f_l(h_{l-1}), \qquad
        \frac{\partial h_l}{\partial h_{l-1}} = I + \frac{\partial f_l}{\partial h_{l-1}}

    so that the Jacobian of all layers, which in a plain network is a product with vanishing singular values but for a
    few, stays near the identity. Skip connections add up signals, too. With a branch
    :math:`f_l(h) = \beta W \max(0, h)` in Kaiming's initialization, of :math:`\beta^2` times the mean square of h,

    .. math:: \operatorname E[h_L^2] = (1 + \beta^2)^L\, \operatorname E[h_0^2]

    which is :math:`2^L` with :math:`\beta = 1`, and at most e with the small weights :math:`\beta = 1 / \sqrt L` with
    which the residual networks here begin. All networks are trained by stochastic gradient descent, each kind and depth
    at the learning rate that is best for it on validation data.

    References:
        | Deep residual learning for image recognition (He et al., 2016), https://arxiv.org/abs/1512.03385
        | Fixup initialization: residual learning without normalization (Zhang et al., 2019; small branches),
          https://arxiv.org/abs/1901.09321
        | Identity mappings in deep residual networks (He et al., 2016), https://arxiv.org/abs/1603.05027

    Arguments:
        data: The data set by name; its examples have classes.
        depths: The numbers of layers.
        width: The units of each layer.
        epochs: How often a training goes through the data.
        seeds: From how many initial weights each is trained.
        seed: The seed of the random numbers.
    """
    at_least(1, depths=min(depths, default=0), width=width, epochs=epochs)
    at_least(2, seeds=seeds)
    loaded = load_data(data)
    some = loaded.train.select(torch.arange(min(128, len(loaded.train))))
    results: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        result: dict[str, Any] = {"trained": []}
        for depth in sorted(depths):

            def network(kind: Kind = kind, depth: int = depth) -> DeepClassifier:
                return DeepClassifier(loaded.sizes["features"], loaded.sizes["classes"], kind, depth, width)

            with drawing_from(Generator().manual_seed(seed)):
                model = network()
            result |= {"gradients": gradients(model, some), "singular_values": singular_values(model, some.x[:1])}
            steps = steps_of(loaded, epochs)
            found, _ = classification(network, loaded, steps=steps, seeds=seeds, seed=seed, rates=RATES)
            result["trained"].append(found)
        results[kind] = result
    settings = (
        f"{loaded.name}, {min(depths)} to {max(depths)} layers of {counted(width, 'unit')}; {tuning(epochs, RATES)}; "
        f"losses are means over {counted(seeds, 'seed')} with {CERTAIN}"
    )
    numbers = {
        "settings": settings,
        "depths": sorted(depths),
        "uniform": math.log(loaded.sizes["classes"]),
        "identity_error": identity_error(width, seed),
        "signals": {name: signals(max(depths), width, seed, beta) for name, beta in _betas(max(depths)).items()},
        "kinds": results,
    }
    return concluded(numbers, sentences, draw)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The losses that the two kinds reach by depth, and whether they differ."""
    depths = numbers["depths"]
    plain, residual = (numbers["kinds"][kind]["trained"] for kind in KINDS)
    verdicts = [_verdict(one["losses"], other["losses"]) for one, other in zip(plain, residual, strict=True)]
    first = (
        f"{counted(depths[-1], 'layer')} at their best rates: {_loss(residual[-1])} with skip connections, "
        f"{_loss(plain[-1])} without; {verdicts[-1]}."
    )
    return (
        first,
        *(
            f"{counted(depth, 'layer')}: residual {_loss(other)} at rate {other['rate']:g}, plain {_loss(one)} at rate "
            f"{one['rate']:g}; {verdict}."
            for depth, one, other, verdict in zip(depths, plain, residual, verdicts, strict=True)
        ),
        *(
            f"Residual branches of {name} weights: after {counted(depths[-1], 'layer')} the mean square of signals is "
            f"{found['measured'][-1]:.3g} times that of the input, by theory {found['theory'][-1]:.3g}."
            for name, found in numbers["signals"].items()
        ),
        f"Uniform probabilities have a loss of {numbers['uniform']:.3f} nats.",
    )


def _verdict(plain: list[float | None], residual: list[float | None]) -> str:
    pairs = [(one, other) for one, other in zip(plain, residual, strict=True) if one is not None and other is not None]
    if len(pairs) < 2:
        return "too few of them have a loss to compare"
    apart, width = interval([one - other for one, other in pairs])
    if abs(apart) <= width:
        return "they cannot be told apart"
    return (
        f"{'skip connections are' if apart > 0 else 'the plain networks are'} better by {abs(apart):.3f} ± {width:.3f}"
    )


def _loss(trained: Mapping[str, Any]) -> str:
    """The training loss with its confidence interval, in words."""
    if None in trained["losses"]:
        return "diverged"
    middle, width = interval(trained["losses"])
    return f"{middle:.3f} ± {width:.3f} nats"


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


def _betas(depth: int) -> dict[str, float]:
    return {"full": 1.0, "small": 1 / math.sqrt(depth)}


def signals(depth: int, width: int, seed: int, beta: float) -> dict[str, list[float]]:
    """The mean square of a residual network's states relative to its input by depth, over several random networks."""
    found = torch.zeros(depth + 1, dtype=torch.float64)
    with drawing_from(Generator().manual_seed(seed)), torch.no_grad():
        for _ in range(NETWORKS):
            state = torch.randn(INPUTS, width, dtype=torch.float64)
            first = state.square().mean()
            for layer in range(depth + 1):
                found[layer] += state.square().mean() / first / NETWORKS
                weight = torch.randn(width, width, dtype=torch.float64) * beta * math.sqrt(2 / width)
                state = state + state.relu() @ weight.T
    return {"measured": found.tolist(), "theory": [(1 + beta**2) ** layer for layer in range(depth + 1)]}


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


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Learning and its end by depth; gradients and singular values before training."""
    deepest = numbers["depths"][-1]
    figure = new_figure(12.5, 7.6)
    grid = figure.add_gridspec(2, 6)
    learning, depth = (figure.add_subplot(grid[0, 3 * i : 3 * i + 3]) for i in range(2))
    gradient, stretch, size = (figure.add_subplot(grid[1, 2 * i : 2 * i + 2]) for i in range(3))
    for (kind, result), color in zip(numbers["kinds"].items(), PALETTE, strict=False):
        last = result["trained"][-1]
        draw_band(learning, last["steps"], last["curves"], color, f"{kind}, rate {last['rate']:g}")
        known = [(at, each["losses"]) for at, each in zip(numbers["depths"], result["trained"], strict=True)]
        known = [(at, losses) for at, losses in known if None not in losses]
        depth.errorbar(
            [at for at, _ in known], [fmean(losses) for _, losses in known],
            [interval(losses)[1] for _, losses in known], fmt="-o", capsize=3, color=color, markersize=5, label=kind,
        )  # fmt: skip
        gradient.plot(range(deepest + 1), result["gradients"], color=color, label=kind)
        values = result["singular_values"]
        stretch.plot(range(1, len(values) + 1), [max(value, SMALLEST) for value in values], "o-", color=color,
                     markersize=3.5, linewidth=1, label=kind)  # fmt: skip
    for axes in (learning, depth):
        axes.axhline(numbers["uniform"], color=MUTED, linewidth=0.8, linestyle="--", label="uniform probabilities")
        axes.set_ylim(-0.05, 1.3 * numbers["uniform"])
    _finish(learning, f"Learning with {counted(deepest, 'layer')}: mean and range", "step", "training loss in nats")
    _finish(depth, "Loss of all training data in the end, by depth", "number of layers", "training loss in nats")
    gradient.set_yscale("log")
    _finish(gradient, f"Before training: gradients in {counted(deepest, 'layer')}", "layer", "mean square E[(∂L/∂h)²]")
    stretch.set_yscale("log")
    _finish(stretch, f"Singular values of the Jacobian of {counted(deepest, 'layer')}", "number", "of ∂h/∂h₀")
    for (name, found), color in zip(numbers["signals"].items(), PALETTE[2:], strict=False):
        size.plot(range(len(found["measured"])), found["measured"], "o", color=color, markersize=3,
                  label=f"residual, {name} weights")  # fmt: skip
        size.plot(range(len(found["theory"])), found["theory"], color=color, linewidth=1)
    size.plot([], [], color=MUTED, linewidth=1, label="theory")
    size.set_yscale("log")
    _finish(size, "Size of signals before training", "layer", "mean square, relative")
    return figure


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    dress(axes, title, x, y)
    legend(axes)

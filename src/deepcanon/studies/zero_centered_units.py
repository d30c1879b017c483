"""Units that are not zero-centered: weight gradients of one sign; and the logistic unit as a smoothed threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn

from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded

KINDS: tuple[Activation, ...] = ("sigmoid", "relu", "tanh")
RATE = 1.5
STEPS = 60
"""The steps of the descent that is drawn."""
ROUNDING = 1e-12
POINTS = 20_001
"""The points between -1 and 1 at which a logistic unit is compared with a threshold."""


def zero_centered_units(
    *,
    units: tuple[int, ...] = (1, 2, 4, 8, 16),
    examples: int = 20_000,
    norms: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0),
    seed: int = 0,
) -> Finding:
    r"""The signs of weight gradients behind units that are zero-centered or not; logistic units of growing norm.

    The gradient of an example in the weights of a unit is :math:`\partial L / \partial w = \delta\, h`, with the
    outputs h of the units before it. Where all of these are positive, as those of logistic units are, all weights get
    gradients of one sign, that of :math:`\delta`: they can only grow together or shrink together. Of n independent
    zero-centered units that is so with the probability :math:`2^{1 - n}`. Over many examples it shows in the condition
    number of :math:`\operatorname E[h h^\top]`, the curvature of a squared error, for n units of mean m and variance v:

    .. math:: P(\text{one sign}) = 2^{1-n}, \qquad \kappa = 1 + n\, \frac{m^2}{v}

    The output of a logistic unit, :math:`\sigma(\lVert w \rVert\, u^\top x)`, depends on the direction u of its weights
    and their norm: the larger the norm, the nearer to the threshold, and the smaller the range in which it has a
    gradient. Over projections :math:`u^\top x` from -1 to 1 its mean distance from the threshold is

    .. math:: \frac12 \int_{-1}^1 \bigl| \sigma(k t) - [t > 0] \bigr|\, dt = \frac{\ln 2 - \ln(1 + e^{-k})}{k}

    References:
        | Efficient backprop (LeCun et al., 1998; sections 4.3 and 4.4), https://doi.org/10.1007/3-540-49430-8_2

    Arguments:
        units: The numbers n of units before a unit.
        examples: The number of examples.
        norms: The norms k of the weights of a logistic unit.
        seed: The seed of the random numbers.
    """
    at_least(1, units=min(units, default=0))
    at_least(2, examples=examples)
    generator = Generator().manual_seed(seed)
    z = torch.randn(examples, max(units), generator=generator, dtype=torch.float64)
    errors = torch.randn(examples, generator=generator, dtype=torch.float64)
    kinds: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        h = activation_layer(kind)(z)
        mean, variance = _moments(kind)
        kinds[kind] = {
            "one_sign": [one_sign(gradients(h[:, :n], errors)) for n in units],
            "condition": [condition(h[:, :n]) for n in units],
            "condition_theory": [1 + n * mean**2 / variance if n > 1 else 1.0 for n in units],
            "mean": mean if abs(mean) > ROUNDING else 0.0,
            "path": descent(h[:, :2]) if max(units) > 1 else [],
        }
    numbers = {
        "settings": f"{', '.join(map(str, units))} units with standard normal preactivations, "
        f"{counted(examples, 'example')}; norms {', '.join(f'{norm:g}' for norm in norms)}; "
        f"paths take steps of {RATE:g} over the largest eigenvalue",
        "units": list(units),
        "examples": examples,
        "kinds": kinds,
        "theory": [2.0 ** (1 - n) for n in units],
        "norms": list(norms),
        "distances": [distance(norm) for norm in norms],
        "distances_theory": [(math.log(2) - math.log1p(math.exp(-norm))) / norm for norm in norms],
    }
    return concluded(numbers, sentences, draw)


def gradients(h: Tensor, errors: Tensor) -> Tensor:
    """The gradient of each example in the weights of a linear unit, (examples, units), by autograd.

    ``errors`` are the derivatives of the loss in the output of the unit.
    """
    weight = torch.zeros(len(h), h.shape[1], dtype=h.dtype, requires_grad=True)  # a copy for each example
    with torch.enable_grad():
        (found,) = torch.autograd.grad(((weight * h).sum(1) * errors).sum(), weight)
    return found


def one_sign(found: Tensor) -> float:
    """The share of examples in whose gradient no two numbers have different signs."""
    mixed = (found > 0).any(1) & (found < 0).any(1)
    return 1 - int(mixed.sum()) / len(found)


def condition(h: Tensor) -> float:
    """The condition number of the second moments of the units."""
    values = torch.linalg.eigvalsh(h.T @ h / len(h))
    return float(values[-1] / values[0])


def descent(h: Tensor) -> list[list[float]]:
    """The path of gradient descent for the squared error of a linear unit, from the weights (1, 1) to (1, -1)."""
    matrix = h.T @ h / len(h)
    goal = torch.tensor([1.0, -1.0], dtype=h.dtype)
    rate = RATE / float(torch.linalg.eigvalsh(matrix)[-1])
    weight, path = torch.ones(2, dtype=h.dtype), []
    for _ in range(STEPS):
        path.append(weight.tolist())
        weight = weight - rate * matrix @ (weight - goal)
    return path


def distance(norm: float) -> float:
    """The mean distance between a logistic unit of this norm and a threshold, for projections from -1 to 1."""
    unit = nn.Sequential(nn.Linear(1, 1, bias=False, dtype=torch.float64), nn.Sigmoid())
    with torch.no_grad():
        next(unit.parameters()).fill_(norm)
        t = torch.linspace(-1, 1, POINTS, dtype=torch.float64)
        apart = (unit(t[:, None])[:, 0] - (t > 0).double()).abs()
        return float(torch.trapezoid(apart, t)) / 2


def _moments(kind: Activation) -> tuple[float, float]:
    """The mean and the variance of an activation of standard normal numbers, by a fine sum."""
    z = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    weights = torch.softmax(-z.square() / 2, 0)
    h = activation_layer(kind)(z)
    mean = float(weights @ h)
    return mean, float(weights @ h.square()) - mean**2


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The shares of gradients of one sign, the condition numbers, and the distance from a threshold."""
    n, kinds = numbers["units"][-1], numbers["kinds"]
    shares = [f"{100 * found['one_sign'][-1]:.3g} % behind {kind} units" for kind, found in kinds.items()]
    first = f"Gradients of {n} weights have one sign in {', '.join(shares[:-1])} and {shares[-1]}."
    lines = [
        f"{kind.capitalize()}: the mean output is {found['mean']:.3f}; the condition number of {n} units is "
        f"{found['condition'][-1]:.3g}, by the formula {found['condition_theory'][-1]:.3g}."
        for kind, found in kinds.items()
    ]
    theory = f"Of {n} independent zero-centered units {100 * numbers['theory'][-1]:.3g} % would have one sign."
    step = (
        f"A logistic unit of norm {numbers['norms'][-1]:g} is {numbers['distances'][-1]:.4f} from a threshold, by the "
        f"formula {numbers['distances_theory'][-1]:.4f}; of norm {numbers['norms'][0]:g} {numbers['distances'][0]:.4f}."
    )
    return (first, theory, *lines, step)


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The shares by the number of units, the paths of two weights, and logistic units by their norm."""
    figure = new_figure(12.5, 4.4)
    left, middle, right = figure.subplots(1, 3)
    units = numbers["units"]
    for i, ((kind, found), color) in enumerate(zip(numbers["kinds"].items(), PALETTE, strict=False)):
        shown = [max(share, 0.1 / numbers["examples"]) for share in found["one_sign"]]
        left.plot(units, shown, "o-", color=color, markersize=11 - 3 * i, linewidth=4 - 1.3 * i, label=kind)
        if found["path"]:
            middle.plot(*zip(*found["path"], strict=True), "o-", color=color, markersize=3, linewidth=0.9, label=kind)
    left.plot(units, numbers["theory"], color=MUTED, linestyle="--", linewidth=0.9, label="2^(1 - n)")
    left.set_yscale("log")
    left.set_ylim(0.3 / numbers["examples"], 3)
    middle.plot([1], [-1], "*", color=MUTED, markersize=12, label="goal")
    dress(left, "Gradients of one sign", "number n of units before", "share of examples")
    dress(middle, "Descent of two weights", "first weight", "second weight")
    _draw_norms(right, numbers)
    for axes in (left, middle, right):
        legend(axes)
    return figure


def _draw_norms(axes: Axes, numbers: Mapping[str, Any]) -> None:
    t = torch.linspace(-1, 1, 401, dtype=torch.float64)
    chosen = list(zip(numbers["norms"], numbers["distances"], strict=True))
    for (norm, apart), color in zip(chosen, PALETTE, strict=False):
        axes.plot(t.tolist(), (norm * t).sigmoid().tolist(), color=color, label=f"norm {norm:g}, {apart:.3f} apart")
    dress(axes, "Logistic units and the threshold", "projection of x on the weights", "output")

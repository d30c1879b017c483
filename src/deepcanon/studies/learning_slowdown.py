"""Learning slowdown: the quadratic cost and the cross-entropy at a saturated unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.losses.quadratic_cost import quadratic_cost
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded

COSTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "quadratic cost": quadratic_cost,
    "cross-entropy": F.binary_cross_entropy,
}
HALF = 0.5
"""A unit whose output is below this says the right class."""
CHECKS = 1000
"""At so many random units the formulas are compared with autograd."""
DASHES = ("-", "--", "-.", ":")


def learning_slowdown(
    *,
    weights: tuple[float, ...] = (0.6, 2.0),
    biases: tuple[float, ...] = (0.9, 2.0),
    rate: float = 0.15,
    steps: int = 300,
    seed: int = 0,
) -> Finding:
    r"""The learning of a saturated logistic unit with the quadratic cost and with the cross-entropy.

    A unit :math:`a = \sigma(w x + b)` with the input :math:`x = 1` should learn the output :math:`y = 0`. Its
    derivatives are

    .. math:: \frac{\partial}{\partial w} \tfrac12 (a - y)^2 = \sigma'(z)\, (a - y)\, x, \qquad
        \frac{\partial}{\partial w} \bigl(-y \ln a - (1 - y) \ln (1 - a)\bigr) = (a - y)\, x

    The quadratic cost has the factor :math:`\sigma' = a (1 - a)`, so that a unit that is badly wrong, with an output
    near 1, learns slowly. The cross-entropy has not, and the larger the error, the faster it learns. Both descend by
    the same steps from the same weights.

    References:
        | Neural networks and deep learning (Nielsen, 2015; chapter 3), http://neuralnetworksanddeeplearning.com/chap3.html
        | Accelerated learning in layered neural networks (Solla et al., 1988),
          https://www.complex-systems.com/abstracts/v02_i06_a01/

    Arguments:
        weights: The initial weights.
        biases: The initial bias of each.
        rate: The learning rate.
        steps: The number of steps of gradient descent.
        seed: The seed of the units, inputs and targets at which the formulas are compared with autograd.
    """
    at_least(1, steps=steps, weights=len(weights))
    if len(weights) != len(biases):
        given = f"{counted(len(weights), 'weight')} and {counted(len(biases), 'bias', plural='biases')}"
        raise UsageError(f"each initial weight has a bias (got {given})")
    if rate <= 0:
        raise UsageError(f"rate is a learning rate, above 0 (got {rate})")
    starts = [
        {"weight": w, "bias": b, "costs": {name: descended(cost, w, b, rate, steps) for name, cost in COSTS.items()}}
        for w, b in zip(weights, biases, strict=True)
    ]
    grid = torch.linspace(-6, 6, 49, dtype=torch.float64)
    one, zero = torch.ones_like(grid), torch.zeros_like(grid)
    slopes = {name: derivatives(cost, grid, one, zero) for name, cost in COSTS.items()}
    exact = {name: formula(name, grid, one, zero) for name in COSTS}
    generator = Generator().manual_seed(seed)
    w, x = torch.randn(2, CHECKS, generator=generator, dtype=torch.float64)
    y = torch.rand(CHECKS, generator=generator, dtype=torch.float64)
    errors = [(derivatives(cost, w, x, y) - formula(name, w, x, y)).abs().max() for name, cost in COSTS.items()]
    numbers = {
        "settings": f"A logistic unit with the input 1 and the target 0; initial weights {_joined(weights)} with the "
        f"biases {_joined(biases)}; {counted(steps, 'step')} of gradient descent at the rate {rate:g}",
        "starts": starts,
        "steps": steps,
        "outputs": grid.sigmoid().tolist(),
        "derivatives": {name: slope.tolist() for name, slope in slopes.items()},
        "closed": {name: slope.tolist() for name, slope in exact.items()},
        "error": max(map(float, errors)),
    }
    return concluded(numbers, sentences, draw)


def descended(cost: Callable[[Tensor, Tensor], Tensor], w: float, b: float, rate: float, steps: int) -> dict[str, Any]:
    """The outputs along a descent, the derivative at its start, and the first step with an output below one half."""
    values = torch.tensor([w, b], dtype=torch.float64, requires_grad=True)
    outputs, first = [], 0.0
    with torch.enable_grad():
        for step in range(steps + 1):
            a = (values[:1] + values[1:]).sigmoid()  # the input is 1
            outputs.append(a.item())
            (slope,) = torch.autograd.grad(cost(a[None], torch.zeros_like(a[None])), values)
            first = first if step else slope[0].item()
            values = (values - rate * slope).detach().requires_grad_()
    return {"outputs": outputs, "derivative": first, "half": next((i for i, a in enumerate(outputs) if a < HALF), None)}


def derivatives(cost: Callable[[Tensor, Tensor], Tensor], w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The derivative of the cost of each unit in its weight, by autograd."""
    w = w.clone().requires_grad_()
    with torch.enable_grad():
        a = (w * x).sigmoid()
        total = len(w) * cost(a[:, None], y[:, None])  # the cost is a mean over the examples
        (found,) = torch.autograd.grad(total, w)
    return found


def formula(name: str, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The same by its closed form."""
    a = (w * x).sigmoid()
    return (a - y) * x * (a * (1 - a) if name == "quadratic cost" else 1)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Where each descent leads, and the derivatives with which it begins."""
    last = numbers["starts"][-1]
    ends = [f"{found['outputs'][-1]:.2f} with the {name}" for name, found in last["costs"].items()]
    first = next(iter(last["costs"].values()))["outputs"][0]
    steps = counted(numbers["steps"], "step")
    lines = [f"From an output of {first:.2f} that should be 0, {steps} lead to {' and '.join(ends)}."]
    for start in numbers["starts"]:
        quadratic, entropy = (start["costs"][name] for name in COSTS)
        ratio = entropy["derivative"] / quadratic["derivative"]
        lines.append(
            f"Weight {start['weight']:g} and bias {start['bias']:g}, output {quadratic['outputs'][0]:.3f}: the "
            f"derivative is {quadratic['derivative']:.4f} of the quadratic cost and {entropy['derivative']:.4f} of the "
            f"cross-entropy, {ratio:.1f} times as large. An output below one half comes {_when(quadratic)} and "
            f"{_when(entropy)}."
        )
    return (*lines, f"At random units, autograd and the formulas differ by at most {numbers['error']:.0e}.")


def _when(found: Mapping[str, Any]) -> str:
    return "not at all" if found["half"] is None else f"after {found['half']} steps"


def _joined(values: tuple[float, ...]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The outputs along the descents, and the derivatives by the output."""
    figure = new_figure(11.5, 4.4)
    learning, slope = figure.subplots(1, 2)
    for name, color in zip(COSTS, PALETTE, strict=False):
        for i, start in enumerate(numbers["starts"]):
            label = f"{name}, w = {start['weight']:g}, b = {start['bias']:g}"
            learning.plot(start["costs"][name]["outputs"], DASHES[i % len(DASHES)], color=color, label=label)
        slope.plot(numbers["outputs"], numbers["closed"][name], color=color, label=f"{name}: formula")
        slope.plot(numbers["outputs"], numbers["derivatives"][name], "o", color=color, markersize=3)
    slope.plot([], [], "o", color=MUTED, markersize=3, label="autograd")
    learning.set_ylim(0, 1.02)
    dress(learning, "Output of the unit, which should be 0", "step", "output a")
    dress(slope, "Derivative in the weight by the output", "output a", "∂C/∂w")
    legend(learning)
    legend(slope)
    return figure

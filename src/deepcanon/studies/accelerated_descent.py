"""Accelerated gradient descent: Nesterov's 1/t² and the 1/t of gradient descent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import linear_regression
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded

METHODS = ("gradient descent", "constant momentum", "Nesterov's momentum")
BOUNDED = ("gradient descent", "Nesterov's momentum")
FITTED = 0.1
"""Exponents are fitted from this share of the steps on."""


def accelerated_descent(
    *, steps: int = 1000, dimensions: int = 400, smallest: float = 1e-9, momentum: float = 0.9, seed: int = 0
) -> Finding:
    r"""The rates of convergence of gradient descent and of Nesterov's accelerated descent, and their bounds.

    A quadratic :math:`f(x) = \frac12 \sum_i \lambda_i x_i^2` with eigenvalues at even distances on a logarithmic scale,
    from nearly 0 to :math:`L = 1`, so that at every time there are directions that are just about to be learned.
    From a random :math:`x_0`, all of one size, gradient descent and Nesterov's method take steps :math:`1 / L`:

    .. math:: x_{t+1} = y_t - \tfrac1L \nabla f(y_t), \qquad
        y_{t+1} = x_{t+1} + \mu_t\, (x_{t+1} - x_t), \qquad \mu_t = \frac{t + 1}{t + 4}

    with :math:`\mu_t = 0` in gradient descent. Of all smooth convex functions with a minimum at 0 they keep

    .. math:: f(x_t) \le \frac{L \lVert x_0 \rVert^2}{2 t}, \qquad f(x_t) \le \frac{2 L \lVert x_0 \rVert^2}{(t + 1)^2}

    A constant momentum, as it is used in deep learning, multiplies the rate by a constant, but not the exponent.

    References:
        | A method for solving the convex programming problem with convergence rate O(1/k²) (Nesterov, 1983)
        | A fast iterative shrinkage-thresholding algorithm (Beck and Teboulle, 2009; both bounds),
          https://doi.org/10.1137/080716542
        | A differential equation for modeling Nesterov's accelerated gradient method (Su et al., 2016; the momentum),
          https://arxiv.org/abs/1503.01243

    Arguments:
        steps: The number of steps.
        dimensions: The number of eigenvalues.
        smallest: The smallest eigenvalue; the largest is 1.
        momentum: The constant momentum.
        seed: The seed of the start, whose coordinates lie between 0.8 and 1.2.
    """
    at_least(20, steps=steps)
    at_least(2, dimensions=dimensions)
    if not 0 < smallest < 1:
        raise UsageError(f"smallest is an eigenvalue between 0 and 1, the largest (got {smallest})")
    if not 0 <= momentum < 1:
        raise UsageError(f"momentum is at least 0 and below 1 (got {momentum})")
    eigenvalues = torch.logspace(math.log10(smallest), 0, dimensions, dtype=torch.float64)
    start = 0.8 + 0.4 * torch.rand(dimensions, generator=Generator().manual_seed(seed), dtype=torch.float64)
    methods: dict[str, dict[str, Any]] = {}
    for method in METHODS:
        heights = descended(method, eigenvalues, start, steps, momentum)
        methods[method] = {"heights": heights, "exponent": exponent(heights)}
    for method in BOUNDED:
        limits = bounds(method, float(start.square().sum()), steps)
        shares = [height / limit for height, limit in zip(methods[method]["heights"][1:], limits, strict=True)]
        methods[method] |= {"bounds": limits, "highest_share": max(shares)}
    numbers = {
        "settings": f"{dimensions} eigenvalues from {smallest:g} to 1 on a logarithmic scale; "
        f"{counted(steps, 'step')} of size 1; the constant momentum is {momentum:g}; "
        f"exponents are fitted from step {round(FITTED * steps)} on",
        "steps": steps,
        "methods": methods,
    }
    return concluded(numbers, sentences, draw)


def descended(method: str, eigenvalues: Tensor, start: Tensor, steps: int, momentum: float) -> list[float]:
    """The heights f(x_t) from the start on, steps + 1 of them."""
    x, y = start, start
    heights = [float(eigenvalues @ start.square()) / 2]
    for t in range(steps):
        new = y - eigenvalues * y
        following = {METHODS[0]: 0.0, METHODS[1]: momentum, METHODS[2]: (t + 1) / (t + 4)}[method]
        x, y = new, new + following * (new - x)
        heights.append(float(eigenvalues @ x.square()) / 2)
    return heights


def bounds(method: str, square: float, steps: int) -> list[float]:
    """The upper bounds of the height after 1, 2 ... steps with L = 1, by the squared distance of the start."""
    if method == METHODS[0]:
        return [square / (2 * t) for t in range(1, steps + 1)]
    return [2 * square / (t + 1) ** 2 for t in range(1, steps + 1)]


def exponent(heights: list[float]) -> float:
    """The p of heights that fall as t^-p, by least squares on a logarithmic scale.

    >>> round(exponent([1.0, *(t**-1.5 for t in range(1, 101))]), 9)
    1.5
    """
    first = max(1, round(FITTED * (len(heights) - 1)))
    times = range(first, len(heights))
    logs = [math.log(max(heights[t], 1e-300)) for t in times]
    return -linear_regression([math.log(t) for t in times], logs).slope


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The exponents, and whether the bounds hold."""
    methods = numbers["methods"]
    found = {name: f"t^-{each['exponent']:.2f}" for name, each in methods.items()}
    lines = [
        f"The height falls as {found[METHODS[0]]} by gradient descent, {found[METHODS[1]]} with a constant momentum "
        f"and {found[METHODS[2]]} with Nesterov's."
    ]
    for name in BOUNDED:
        share = methods[name]["highest_share"]
        lines.append(
            f"{name[0].upper()}{name[1:]} {'keeps' if share <= 1 else 'breaks'} its bound: the height is at most "
            f"{share:.0%} of it."
        )
    ends = {name: each["heights"][-1] for name, each in methods.items()}
    lines.append(
        f"After {counted(numbers['steps'], 'step')} gradient descent is "
        f"{ends[METHODS[0]] / ends[METHODS[2]]:.3g} times as high as Nesterov's method, and "
        f"constant momentum {ends[METHODS[1]] / ends[METHODS[2]]:.3g} times."
    )
    return tuple(lines)


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The heights with their bounds on logarithmic scales, and the same times t and t squared."""
    figure = new_figure(11.5, 4.6)
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.2, 1]})
    times = range(1, numbers["steps"] + 1)
    for (name, each), color in zip(numbers["methods"].items(), PALETTE, strict=False):
        heights = each["heights"][1:]
        left.plot(times, heights, color=color, label=f"{name}, t^-{each['exponent']:.2f}")
        local = [-math.log(heights[2 * t - 1] / heights[t - 1]) / math.log(2) for t in range(1, len(heights) // 2 + 1)]
        right.plot(range(1, len(local) + 1), local, color=color, label=name)
        if "bounds" in each:
            left.plot(times, each["bounds"], "--", color=color, linewidth=0.9)
    left.plot([], [], "--", color=MUTED, linewidth=0.9, label="bound")
    for axes in (left, right):
        axes.set_xscale("log")
    left.set_yscale("log")
    for order in (1, 2):
        right.axhline(order, color=MUTED, linewidth=0.8, linestyle=":")
    right.set_ylim(0, 3)
    dress(left, "Height above the minimum", "step t", "f(x)")
    dress(right, "Exponent between t and 2t", "step t", "log₂ f(x at t) / f(x at 2t)")
    legend(left)
    legend(right)
    return figure

"""Curvature of the loss: the extreme eigenvalues of the Hessian, and the learning rates they allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import AnyBatch, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.insights._engines.objective import Mode, Objective
from deepcanon.insights._engines.spectrum import Function, Spectrum, hessian_product, lanczos
from deepcanon.pictures.style import INK, LINE, MUTED, PALETTE, dress, legend, new_figure

DISTANCE = 1e-4
"""The distance, to either side, of two points whose distance after a step is measured."""

MOMENTA = (0.0, 0.5, 0.9, 0.99)


def curvature(model: nn.Module, batch: AnyBatch, *, steps: int = 60, mode: Mode = "eval", seed: int = 0) -> Finding:
    r"""The extreme eigenvalues of the Hessian of the loss, and the learning rates they allow.

    Near a point the loss is a quadratic with the Hessian :math:`H`. A step of gradient descent multiplies the distance
    to its minimum along an eigenvector of eigenvalue :math:`\lambda` by :math:`1 - \eta\lambda`, so that

    .. math::
        \eta = \tfrac{1}{\lambda_{\max}} \Rightarrow 1 - \tfrac{\lambda_{\min}}{\lambda_{\max}}, \qquad
        \eta = \tfrac{2}{\lambda_{\min} + \lambda_{\max}} \Rightarrow \tfrac{\kappa - 1}{\kappa + 1}, \qquad
        \kappa = \tfrac{\lambda_{\max}}{\lambda_{\min}}

    are the rates of the slowest direction, the second being the best of all fixed :math:`\eta`. From
    :math:`2 / \lambda_{\max}` on the steepest direction diverges. With momentum :math:`\mu` the effective rate is
    :math:`\eta / (1 - \mu)` while the gradient stays the same, and the distance shrinks by :math:`\sqrt\mu` where the
    path oscillates. If the Hessian has eigenvalues of both signs, as that of a network mostly has, there is no minimum
    to contract to and no condition number; :math:`\lambda_{\max}` still bounds the learning rate.

    The eigenvalues come from the Lanczos iteration on Hessian-vector products. Each has a residual
    :math:`\lVert Hv - \lambda v \rVert`, within which there is an eigenvalue of :math:`H`.

    References:
        | Some methods of speeding up the convergence of iteration methods (Polyak, 1964),
          https://doi.org/10.1016/0041-5553(64)90137-5
        | Fast exact multiplication by the Hessian (Pearlmutter, 1994), https://doi.org/10.1162/neco.1994.6.1.147
        | An investigation into neural net optimization via Hessian eigenvalue density (Ghorbani et al., 2019),
          https://arxiv.org/abs/1901.10159

    Arguments:
        model: The model.
        batch: The examples over which the loss is the mean.
        steps: The number of Hessian-vector products; as many vectors of the size of the model are kept in memory.
        mode: "eval", dropout and batch normalization in evaluation mode, or "train", in training mode.
        seed: The seed of the random start vector.
    """
    at_least(2, steps=steps)
    loss = Objective(model, batch, mode, seed)
    theta = loss.theta
    spectrum = lanczos(hessian_product(loss, theta), len(theta), steps, seed, theta)
    low, high = spectrum.low, spectrum.high
    shape = spectrum.shape
    rates = learning_rates(low, high) if shape == "bowl" else None
    scale = high if high > 0 else abs(low)
    grid = [0.25 * i / scale for i in range(1, 9)] if scale > 0 else []
    directions = {"steepest": spectrum.vector(-1), "lowest": spectrum.vector(0)}
    measured = {
        name: [measured_contraction(loss, theta, direction, eta) for eta in grid]
        for name, direction in directions.items()
    }
    numbers = {
        "parameters": len(theta),
        "products": len(spectrum.values),
        "lowest": low,
        "highest": high,
        "residual_lowest": spectrum.residuals[0],
        "residual_highest": spectrum.residuals[-1],
        "shape": shape,
        "condition_number": rates.condition if rates else None,
        "stable_below": 2 / high if high > 0 else None,
        "one_step_rate": 1 / high if high > 0 else None,
        "one_step_contraction": 1 - low / high if rates else None,
        "best_rate": rates.best if rates else None,
        "best_contraction": rates.contraction if rates else None,
        "best_momentum": rates.momentum if rates else None,
        "best_momentum_contraction": math.sqrt(rates.momentum) if rates else None,
        "ritz_values": spectrum.values,
        "ritz_weights": spectrum.weights,
        "learning_rates": grid,
        "measured_contraction": measured,
        "predicted_contraction": {
            name: [contraction(eta, value) for eta in grid] for name, value in (("steepest", high), ("lowest", low))
        },
        "effective_rate_per_rate": {str(mu): effective_rate(1.0, mu) for mu in MOMENTA},
    }
    return Finding(numbers, _figure(numbers, spectrum), _sentences(numbers, spectrum))


def contraction(rate: float, eigenvalue: float) -> float:
    """The factor of a step of gradient descent on the distance along an eigenvector.

    >>> contraction(0.5, 2.0)
    0.0
    """
    return 1 - rate * eigenvalue


def effective_rate(rate: float, momentum: float) -> float:
    """The effective learning rate with momentum, while the gradient stays the same."""
    _check_momentum(momentum)
    return rate / (1 - momentum)


def heavy_ball_radius(rate: float, eigenvalue: float, momentum: float) -> float:
    r"""The factor of a step with (heavy-ball) momentum on the distance along an eigenvector, in the long run.

    It is the spectral radius of the map of (present, past) distances, whose eigenvalues solve
    :math:`z^2 - (1 + \mu - \eta\lambda) z + \mu = 0`: :math:`\sqrt\mu` while they are complex.

    >>> round(heavy_ball_radius(0.1, 1.0, 0.81), 6)
    0.9
    """
    _check_momentum(momentum)
    trace = 1 + momentum - rate * eigenvalue
    discriminant = trace * trace - 4 * momentum
    if discriminant <= 0:
        return math.sqrt(momentum)
    return (abs(trace) + math.sqrt(discriminant)) / 2


@dataclass(frozen=True)
class LearningRates:
    """The best fixed learning rates for a convex quadratic, and the contraction of its slowest direction with them."""

    condition: float
    """The largest eigenvalue over the smallest."""
    best: float
    """Without momentum."""
    contraction: float
    best_with_momentum: float
    momentum: float
    """The best momentum, whose square root is the contraction with it."""


def learning_rates(low: float, high: float) -> LearningRates:
    """The best fixed learning rates for a quadratic whose eigenvalues go from ``low`` to ``high``.

    >>> rates = learning_rates(1.0, 9.0)
    >>> rates.best, rates.contraction, rates.momentum
    (0.2, 0.8, 0.25)
    """
    if not 0 < low <= high:
        raise UsageError(f"only a quadratic with eigenvalues above zero has a best rate (got {low:.3g} to {high:.3g})")
    condition = high / low
    root = math.sqrt(condition)
    return LearningRates(
        condition,
        2 / (low + high),
        (condition - 1) / (condition + 1),
        4 / (math.sqrt(low) + math.sqrt(high)) ** 2,
        ((root - 1) / (root + 1)) ** 2,
    )


def measured_contraction(function: Function, theta: Tensor, direction: Tensor, rate: float) -> float:
    """The factor of a step of gradient descent on the distance of two points that differ along a direction.

    The direction has length 1. On a quadratic and along an eigenvector it is 1 - rate * eigenvalue at every point.
    """
    ends = []
    for side in (1, -1):
        point = (theta + side * DISTANCE * direction).detach().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(function(point), point, materialize_grads=True)
        ends.append(point.detach() - rate * gradient)
    return float((ends[0] - ends[1]) @ direction) / (2 * DISTANCE)


def _check_momentum(momentum: float) -> None:
    if not 0 <= momentum < 1:
        raise UsageError(f"momentum is from 0 to below 1 (got {momentum})")


def _figure(numbers: dict[str, Any], spectrum: Spectrum) -> Figure:
    words = {
        "bowl": f"A bowl of condition number {numbers['condition_number'] or 0:.3g}",
        "flat": "A bowl that is flat in some directions: no condition number",
        "saddle": "A saddle: curved upwards and downwards, no condition number",
        "dome": "A dome: curved downwards wherever it is curved",
    }
    figure = new_figure(12.6, 4.1, words[numbers["shape"]])
    spectral, slow, heavy = figure.subplots(1, 3)
    _draw_spectrum(spectral, spectrum)
    _draw_contraction(slow, numbers)
    _draw_momentum(heavy, numbers)
    return figure


def _draw_spectrum(axes: Axes, spectrum: Spectrum) -> None:
    below = [value < 0 for value in spectrum.values]
    for sign, color, name in ((False, PALETTE[0], "curved upwards"), (True, PALETTE[1], "curved downwards")):
        chosen = [i for i, negative in enumerate(below) if negative is sign]
        if chosen:
            axes.vlines([spectrum.values[i] for i in chosen], 1e-8, [spectrum.weights[i] for i in chosen], color=color)
            axes.plot(
                [spectrum.values[i] for i in chosen], [spectrum.weights[i] for i in chosen], "o",
                markersize=3.5, color=color, label=name,
            )  # fmt: skip
    largest = max(abs(spectrum.low), abs(spectrum.high))
    if largest > 0:
        axes.set_xscale("symlog", linthresh=1e-3 * largest, linscale=1.5)
    axes.set_yscale("log")
    axes.set_ylim(1e-8, 2)
    dress(axes, f"Eigenvalues, from {spectrum.low:.3g} to {spectrum.high:.3g}", "eigenvalue λ", "share of the spectrum")
    axes.tick_params(axis="x", labelrotation=45)
    legend(axes)


def _draw_contraction(axes: Axes, numbers: dict[str, Any]) -> None:
    low, high, grid = numbers["lowest"], numbers["highest"], numbers["learning_rates"]
    reach = (grid[-1] if grid else 1.0) * 1.15
    fine = [reach * i / 200 for i in range(201)]
    for name, value, color in (("steepest", high, PALETTE[0]), ("lowest", low, PALETTE[1])):
        axes.plot(
            fine, [abs(contraction(eta, value)) for eta in fine], color=color, label=f"{name}: |1 - η · {value:.3g}|"
        )
        axes.plot(grid, [abs(c) for c in numbers["measured_contraction"][name]], "o", markersize=4.5, color=color)
    axes.plot([], [], "o", color=MUTED, markersize=4.5, label="measured")
    axes.axhline(1, color=MUTED, linewidth=0.8, linestyle="--")
    marks = {"1/λmax": numbers["one_step_rate"], "2/λmax": numbers["stable_below"]}
    if numbers["best_rate"]:
        marks["best"] = numbers["best_rate"]
    for name, eta in marks.items():
        if eta is not None and eta <= reach:
            axes.axvline(eta, color=LINE, linewidth=1, zorder=0)
            side = "right" if name == "best" else "left"
            axes.annotate(f" {name} ", (eta, 0.4), ha=side, fontsize=8, color=INK)
    axes.set_ylim(0, 1.55)
    dress(
        axes,
        "One step of gradient descent",
        "learning rate η",
        "factor on the distance along an eigenvector",
        grid=False,
    )
    axes.legend(fontsize=8, labelcolor=INK, edgecolor="none", framealpha=0.75, loc="upper center")


def _draw_momentum(axes: Axes, numbers: dict[str, Any]) -> None:
    high = numbers["highest"] if numbers["highest"] > 0 else 1.0
    reach = 2 * (1 + max(MOMENTA)) / high * 1.1
    fine = [reach * i / 400 for i in range(401)]
    for mu, color in zip(MOMENTA, (INK, *PALETTE), strict=False):
        axes.plot(
            fine,
            [heavy_ball_radius(eta, high, mu) for eta in fine],
            color=color,
            label=f"μ = {mu:g}: √μ = {math.sqrt(mu):.3g}, worth {effective_rate(1, mu):.3g} η",
        )
        axes.axhline(math.sqrt(mu), color=color, linewidth=0.7, linestyle=":")
    axes.axhline(1, color=MUTED, linewidth=0.8, linestyle="--")
    axes.set_ylim(0, 1.4)
    dress(
        axes,
        "Heavy ball in the steepest direction",
        "learning rate η",
        "spectral radius of a step",
        grid=False,
    )
    legend(axes)


def _sentences(numbers: dict[str, Any], spectrum: Spectrum) -> tuple[str, ...]:
    low, high = spectrum.low, spectrum.high
    lines = [
        f"The Hessian's eigenvalues go from {low:.4g} (± {spectrum.residuals[0]:.1g}) to {high:.4g} "
        f"(± {spectrum.residuals[-1]:.1g}), after {counted(len(spectrum.values), 'product')}."
    ]
    if not spectrum.settled():
        lines.append("They have not converged to 1 %: the true extremes may lie further out; give more steps.")
    if numbers["shape"] == "bowl":
        lines.append(
            f"Condition number {numbers['condition_number']:.4g}: the best fixed learning rate is "
            f"{numbers['best_rate']:.4g}, which multiplies the slowest distance by {numbers['best_contraction']:.4g}; "
            f"with the best momentum {numbers['best_momentum']:.3g} it is {numbers['best_momentum_contraction']:.4g}."
        )
    elif numbers["shape"] == "flat":
        lines.append("Some directions have no curvature at all: the condition number is infinite.")
    else:
        lines.append(
            "There are directions that curve downwards: no minimum is near, and a condition number has no meaning."
        )
    if high > 0 and numbers["shape"] != "dome":
        lines.append(
            f"Gradient descent without momentum is stable only for learning rates below 2/λmax = {2 / high:.4g}."
        )
    return tuple(lines)

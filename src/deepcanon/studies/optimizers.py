"""Optimizers compared on four test functions: a quadratic, a ravine, a saddle and Rosenbrock's function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.options import parse
from deepcanon.optim import optimizer, optimizer_classes
from deepcanon.pictures.style import INK, LINE, MUTED, PALETTE, dress, new_figure
from deepcanon.pictures.surfaces import contours

RATES = tuple(10 ** (k / 2) for k in range(-8, 3))
"""The grid of learning rates for each optimizer: from 0.0001 to 10, two per power of ten."""


@dataclass(frozen=True)
class Valley:
    """A test function of two numbers, with the starting point of the descent and its minimum."""

    formula: str
    height: Callable[[Tensor, Tensor], Tensor]
    start: tuple[float, float]
    window: tuple[float, float, float, float]
    """Left, right, bottom and top of what is shown."""
    floor: float = 0.0
    minima: tuple[tuple[float, float], ...] = ((0.0, 0.0),)


VALLEYS = {
    "quadratic": Valley("x² + 2y²", lambda x, y: x**2 + 2 * y**2, (-2.0, 1.5), (-2.6, 1.2, -1.4, 2.0)),
    "ravine": Valley(
        "x²/10 + 10 y², kappa = 100", lambda x, y: x**2 / 10 + 10 * y**2, (-4.0, 0.6), (-4.6, 1.4, -0.9, 0.9)
    ),
    "saddle": Valley(
        "x² - y² + y⁴/4",
        lambda x, y: x**2 - y**2 + y**4 / 4,
        (-1.2, 1e-3),
        (-1.6, 0.9, -0.6, 2.0),
        -1.0,
        ((0.0, math.sqrt(2)), (0.0, -math.sqrt(2))),
    ),
    "rosenbrock": Valley(
        "(1 - x)² + 100 (y - x²)²",
        lambda x, y: (1 - x) ** 2 + 100 * (y - x**2) ** 2,
        (-1.2, 1.0),
        (-1.6, 1.5, -0.5, 1.7),
        minima=((1.0, 1.0),),
    ),
}


def optimizers(
    *, names: tuple[str, ...] = (), steps: int = 200, tolerance: float = 1e-3, shown: int = 5, seed: int = 0
) -> Finding:
    r"""The paths of all optimizers on four test functions, and the number of steps that each needs.

    Every optimizer minimizes four functions of two numbers with exact gradients. Its learning rate is the one of a grid
    of half powers of ten from :math:`10^{-4}` to 10 that reaches the tolerance in the fewest steps or, where none does,
    ends lowest; all its other settings are its defaults. The tolerance is relative to the starting point,

    .. math:: f(x_t) - f_{\min} \le \tau\, (f(x_0) - f_{\min}).

    The saddle starts next to its ridge, where the gradient is 1500 times as steep towards the saddle as away from it.

    References:
        | An overview of gradient descent optimization algorithms (Ruder, 2016), https://arxiv.org/abs/1609.04747
        | An automatic method for finding the greatest or least value of a function (Rosenbrock, 1960),
          https://doi.org/10.1093/comjnl/3.3.175

    Arguments:
        names: The optimizers, with options if wanted, such as "sgd:momentum=0.9"; by default all there are.
        steps: The most steps of a descent.
        tolerance: The relative tolerance :math:`\tau`.
        shown: How many paths each panel shows: the fastest ones, and plain gradient descent.
        seed: The seed of optimizers that draw random numbers.
    """
    at_least(1, steps=steps, shown=shown)
    if not 0 < tolerance < 1:
        raise UsageError(f"tolerance is a fraction of the initial height, between 0 and 1 (got {tolerance})")
    chosen = names or everyone()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        found = {name: best_descents(name, list(VALLEYS.values()), steps, tolerance) for name in chosen}
    descents = {valley: {name: found[name][i] for name in chosen} for i, valley in enumerate(VALLEYS)}
    numbers: dict[str, Any] = {
        "steps": steps,
        "tolerance": tolerance,
        "rates": list(RATES),
        "descents": {
            valley: {
                name: {"lr": each.lr, "reached": each.reached, "end": each.end, "path": [list(p) for p in each.path]}
                for name, each in there.items()
            }
            for valley, there in descents.items()
        },
    }
    return Finding(numbers, _figure(numbers, shown), _sentences(numbers))


def everyone() -> tuple[str, ...]:
    """All optimizers by name, gradient descent also with momentum, and L-BFGS with one gradient per step as the others.

    Left out are Muon, which is for matrices, and our own momentum, whose path at a constant rate is that of torch.
    """
    own = ("sgd", "sgd:momentum=0.9", "sgd:momentum=0.9,nesterov=true", "lbfgs:max_iter=1")
    others = set(optimizer_classes()) - {"sgd", "lbfgs", "muon", "momentum"}
    return (*own, *sorted(others))


@dataclass(frozen=True)
class Descent:
    """The path of a descent: its points with the start, and the first step within the tolerance, if any."""

    lr: float
    path: tuple[tuple[float, float], ...]
    end: float
    """The final height above the minimum, as a fraction of that of the start."""
    reached: int | None

    @property
    def rank(self) -> tuple[float, float]:
        """Smaller is better: fewer steps first, then a lower end."""
        return (math.inf if self.reached is None else self.reached, self.end)


def descend(name: str, valley: Valley, lr: float, steps: int, tolerance: float) -> Descent:
    """The descent of an optimizer with this learning rate.

    >>> path = descend("sgd", VALLEYS["quadratic"], 0.25, 3, 1e-3).path
    >>> [tuple(round(number, 3) for number in point) for point in path]
    [(-2.0, 1.5), (-1.0, 0.0), (-0.5, 0.0), (-0.25, 0.0)]
    """
    return _judged(valley, lr, _paths(name, [valley], [lr], steps)[0, 0], tolerance)


def best_descents(name: str, valleys: Sequence[Valley], steps: int, tolerance: float) -> list[Descent]:
    """The best descent into each valley over the grid of learning rates."""
    if parse(name)[0] == "lbfgs":  # it has one vector only, and would take all descents for one
        paths = torch.stack([torch.cat([_paths(name, [v], [lr], steps)[0] for lr in RATES]) for v in valleys])
    else:
        paths = _paths(name, valleys, RATES, steps)
    return [
        min((_judged(valley, lr, path, tolerance) for lr, path in zip(RATES, each, strict=True)), key=lambda d: d.rank)
        for valley, each in zip(valleys, paths, strict=True)
    ]


def _paths(name: str, valleys: Sequence[Valley], rates: Sequence[float], steps: int) -> Tensor:
    """The points of all descents, which run in parallel, (valleys, rates, steps + 1, 2)."""
    starts = torch.tensor([valley.start for valley in valleys], dtype=torch.float64)
    points = starts.repeat(len(rates), 1, 1)  # the parameters are views of it, their gradients of the slopes
    slopes = torch.zeros_like(points)
    parameters = [[nn.Parameter(point) for point in row] for row in points]
    for row, gradients in zip(parameters, slopes, strict=True):
        for parameter, gradient in zip(row, gradients, strict=True):
            parameter.grad = gradient
    opt = optimizer(name, parameters[0], rates[0])
    for lr, row in zip(rates[1:], parameters[1:], strict=True):
        opt.add_param_group({"params": row, "lr": lr})
    path = torch.empty(len(valleys), len(rates), steps + 1, 2, dtype=torch.float64)

    def height() -> float:
        here = points.clone().requires_grad_()
        heights = [valley.height(here[:, i, 0], here[:, i, 1]).sum() for i, valley in enumerate(valleys)]
        total = torch.stack(heights).sum()
        slopes.copy_(torch.autograd.grad(total, here)[0])
        return float(total.detach())

    for step in range(steps + 1):
        path[:, :, step] = points.transpose(0, 1)
        if step < steps:
            opt.step(height)
    return path


def _judged(valley: Valley, lr: float, path: Tensor, tolerance: float) -> Descent:
    """A path as a descent; it ends where it is not finite, and is within the tolerance only if it stays so."""
    heights = (valley.height(path[:, 0], path[:, 1]) - valley.floor).nan_to_num(math.inf, math.inf, math.inf)
    shares = (heights / heights[0]).tolist()
    points = [(x, y) for x, y in path.tolist()]
    if not math.isfinite(shares[-1]):
        finite = next(i for i, share in enumerate(shares) if not math.isfinite(share))
        return Descent(lr, tuple(points[:finite]), math.inf, None)
    late = next((i for i in range(len(shares) - 1, -1, -1) if shares[i] > tolerance), -1)
    return Descent(lr, tuple(points), shares[-1], late + 1 if late + 1 < len(shares) else None)


def _figure(numbers: dict[str, Any], shown: int) -> Figure:
    figure = new_figure(
        15, 8.6, "The same functions, different paths: each optimizer at its best learning rate of a grid"
    )
    grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 1.3))
    panels = [figure.add_subplot(grid[i, j]) for i in (0, 1) for j in (0, 1)]
    names = list(next(iter(numbers["descents"].values())))
    drawn = [name for found in numbers["descents"].values() for name in _worth_showing(found, shown)]
    shades = dict(zip(dict.fromkeys(drawn), cycle(PALETTE), strict=False))
    for axes, (name, valley) in zip(panels, VALLEYS.items(), strict=True):
        _draw_valley(axes, name, valley, numbers["descents"][name], shades, shown)
    _draw_table(figure.add_subplot(grid[:, 2]), numbers, names, shades)
    return figure


def _draw_valley(
    axes: Axes, title: str, valley: Valley, found: dict[str, Any], shades: dict[str, str], shown: int
) -> None:
    left, right, bottom, top = valley.window
    x, y = torch.linspace(left, right, 121, dtype=torch.float64), torch.linspace(bottom, top, 121, dtype=torch.float64)
    heights = valley.height(x[None, :], y[:, None])
    contours(axes, x.tolist(), y.tolist(), heights.tolist(), levels=16, labels=False)
    for name in _worth_showing(found, shown):
        xs, ys = zip(*found[name]["path"], strict=True)
        axes.plot(xs, ys, ".-", color=shades[name], linewidth=1.4, markersize=3.5, label=_short(name))
    axes.plot(*valley.start, "o", color=INK, markersize=6)
    for spot in valley.minima:
        axes.plot(*spot, "*", color="white", markeredgecolor=INK, markersize=12)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    dress(axes, f"{title.capitalize()}: {valley.formula}", "x", "y", grid=False)
    axes.legend(fontsize=7, labelcolor=INK, edgecolor="none", framealpha=0.8, loc="upper right")


def _worth_showing(found: dict[str, Any], shown: int) -> list[str]:
    """The fastest, and the first one, which is plain gradient descent by default."""
    first, *others = found
    ranked = sorted(others, key=lambda name: (found[name]["reached"] or math.inf, found[name]["end"]))
    return [first, *ranked[: shown - 1]]


def _draw_table(axes: Axes, numbers: dict[str, Any], names: Sequence[str], shades: dict[str, str]) -> None:
    dress(axes, f"Steps to {numbers['tolerance']:g} of the initial height, at the learning rate", grid=False)
    axes.set_axis_off()
    valleys = list(numbers["descents"])
    columns = [0.42 + 0.17 * i for i in range(len(valleys))]
    for x, valley in zip(columns, valleys, strict=True):
        axes.text(x, 0.3, valley, fontsize=8.5, fontweight="bold", color=INK, ha="center")
    for line, name in enumerate(names, start=1):
        axes.plot([0.005], [line - 0.1], "s", color=shades.get(name, LINE), markersize=6)
        axes.text(0.03, line, _short(name), fontsize=8.5, color=INK)
        for x, valley in zip(columns, valleys, strict=True):
            each = numbers["descents"][valley][name]
            words = f"{each['reached']}" if each["reached"] else f"({each['end']:.1g})"
            best = each["reached"] and each["reached"] == min(
                other["reached"] or math.inf for other in numbers["descents"][valley].values()
            )
            axes.text(
                x, line, f"{words} · {each['lr']:.2g}", fontsize=8.5, ha="center",
                color=INK if each["reached"] else MUTED, fontweight="bold" if best else "normal",
            )  # fmt: skip
    axes.text(
        0,
        len(names) + 1.2,
        "in brackets: not within the tolerance, and the final height; gray squares: not drawn",
        fontsize=8,
        color=MUTED,
    )
    axes.set_xlim(0, 1.02)
    axes.set_ylim(len(names) + 1.5, -0.5)


def _short(name: str) -> str:
    return (
        name.replace("sgd:momentum=0.9,nesterov=true", "sgd, nesterov 0.9")
        .replace("sgd:momentum=0.9", "sgd, momentum 0.9")
        .replace("lbfgs:max_iter=1", "lbfgs")
    )


def _sentences(numbers: dict[str, Any]) -> tuple[str, ...]:
    lines = []
    for valley, found in numbers["descents"].items():
        there = {name: each["reached"] for name, each in found.items() if each["reached"]}
        if there:
            fastest = min(there, key=lambda name: there[name])
            first = next(iter(found))
            others = f"{_short(first)} {there[first]}" if first in there else f"{_short(first)} does not"
            lines.append(
                f"{valley.capitalize()}: {len(there)} of {len(found)} reach the tolerance; {_short(fastest)} needs "
                f"{there[fastest]} steps, {others}."
            )
        else:
            lines.append(f"{valley.capitalize()}: none of {len(found)} reaches it in {numbers['steps']} steps.")
    return tuple(lines)

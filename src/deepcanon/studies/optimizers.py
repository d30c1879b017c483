"""Optimizers compared on four test functions: a quadratic, a ravine, a saddle and Rosenbrock's function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.options import parse
from deepcanon.optim import optimizer, optimizer_classes
from deepcanon.pictures.style import INK, PALETTE, dress, new_figure
from deepcanon.pictures.surfaces import contours, levels_of
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import alike, bracketed, listed

RATES = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""The learning rates with which the search for the best one of each optimizer begins."""
APART = 1.25
"""By which factor, at most, the coordinates of a start differ from those that are named."""
COUPLED = ("adafactor", "lbfgs")
"""The optimizers whose step of one number depends on the others of its tensor."""
ROUNDING = 1e-9
COLUMNS = 8


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
    *, names: tuple[str, ...] = (), steps: int = 300, tolerance: float = 1e-2, starts: int = 5, seed: int = 0
) -> Finding:
    r"""The paths of all optimizers on four test functions, and the number of steps that each needs.

    Every optimizer minimizes four functions of two numbers with exact gradients, from several starting points near each
    other. Its learning rate is the one of a grid of half powers of ten that needs the fewest steps on average from
    other such points, so that one lucky jump does not decide; all its other settings are its defaults. No path may rise
    above its start. The tolerance is relative to the start, and counts from the step after which the path stays within
    it:

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
        starts: The number of starting points; the rate is chosen with as many others.
        seed: The seed of the starting points, and of optimizers that draw random numbers.
    """
    at_least(1, steps=steps)
    at_least(2, starts=starts)
    if not 0 < tolerance < 1:
        raise UsageError(f"tolerance is a fraction of the initial height, between 0 and 1 (got {tolerance})")
    chosen = names or everyone()
    generator = Generator().manual_seed(seed)
    tuning = {name: _starts(valley, starts + 1, generator)[1:] for name, valley in VALLEYS.items()}
    measured = {name: _starts(valley, starts, generator) for name, valley in VALLEYS.items()}
    descents: dict[str, dict[str, Any]] = {valley: {} for valley in VALLEYS}
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        for name in chosen:
            rates = best_rates(name, VALLEYS, tuning, steps, tolerance)
            for valley, scores in rates.items():
                best = min(scores, key=lambda rate: scores[rate])
                found = descend(name, VALLEYS[valley], measured[valley], best, steps, tolerance)
                descents[valley][name] = {
                    "lr": best,
                    "rates": {f"{rate:g}": scores[rate] for rate in sorted(scores)},
                    "reached": [each.reached for each in found],
                    "ends": [each.end for each in found],
                    "path": [list(point) for point in found[0].path],
                }
    settings = (
        f"Steps to a height of {tolerance:g} of the initial one, at most {steps}: median and range over {starts} "
        f"starts whose coordinates differ by a factor of up to {APART:g}; the path from the first. Learning rates: the "
        f"best of {RATES[0]:g} to {RATES[-1]:g}, and beyond where that is best, from {starts} other starts"
    )
    if names:
        settings += f"; optimizers: {', '.join(names)}"
    numbers = {"settings": settings, "steps": steps, "tolerance": tolerance, "descents": descents}
    return concluded(numbers, sentences, draw)


def everyone() -> tuple[str, ...]:
    """All optimizers by name, gradient descent also with momentum, and L-BFGS with one gradient per step as the others.

    Left out are Muon, which is for matrices, and our own momentum, whose path at a constant rate is that of torch.
    """
    own = ("sgd", "sgd:momentum=0.9", "sgd:momentum=0.9,nesterov=true", "lbfgs:max_iter=1,history_size=5")
    others = set(optimizer_classes()) - {"sgd", "lbfgs", "muon", "momentum"}
    return (*own, *sorted(others))


@dataclass(frozen=True)
class Descent:
    """The path of a descent: its points with the start, and the first step within the tolerance, if any."""

    path: tuple[tuple[float, float], ...]
    end: float
    """The final height above the minimum, as a fraction of that of the start."""
    reached: int | None


def cost(reached: int | None, end: float | None, steps: int) -> float:
    """The steps of a descent; of one that does not reach the tolerance up to twice as many as it had, by its end.

    >>> cost(7, 0.0, 100), cost(None, 0.25, 100), cost(None, None, 100)
    (7, 125.0, 200)
    """
    if reached is not None:
        return reached
    return steps * (1 + min(1, math.inf if end is None else end))


def descend(name: str, valley: Valley, starts: Tensor, lr: float, steps: int, tolerance: float) -> list[Descent]:
    """The descents of an optimizer from each of the starts (S, 2) at this learning rate.

    >>> [found] = descend("sgd", VALLEYS["quadratic"], torch.tensor([[-2.0, 1.5]]).double(), 0.25, 3, 1e-3)
    >>> [tuple(round(number, 3) for number in point) for point in found.path]
    [(-2.0, 1.5), (-1.0, 0.0), (-0.5, 0.0), (-0.25, 0.0)]
    """
    paths = _paths(name, [valley], [starts], [lr], steps)[0, 0]
    return [_judged(valley, path, tolerance) for path in paths]


def best_rates(
    name: str, valleys: Mapping[str, Valley], starts: Mapping[str, Tensor], steps: int, tolerance: float
) -> dict[str, dict[float, float]]:
    """The mean cost of each learning rate from these starts, valley by valley, over a grid with the best one inside."""

    def measured(some: Sequence[str], rates: Sequence[float]) -> list[list[float]]:
        paths = _paths(name, [valleys[each] for each in some], [starts[each] for each in some], rates, steps)
        return [
            [
                fmean(cost(d.reached, d.end, steps) for d in (_judged(valleys[each], path, tolerance) for path in rate))
                for rate in of_valley
            ]
            for each, of_valley in zip(some, paths, strict=True)
        ]

    common = dict(zip(valleys, measured(list(valleys), RATES), strict=True))  # in parallel, as far as the grid goes

    def of(valley: str, rates: Sequence[float]) -> list[float]:
        return common[valley] if rates == RATES else measured([valley], rates)[0]

    return {valley: bracketed(partial(of, valley), RATES) for valley in valleys}


def _starts(valley: Valley, count: int, generator: Generator) -> Tensor:
    """The start of a valley, and others whose coordinates are up to a factor larger or smaller, (count, 2)."""
    factors = APART ** (2 * torch.rand(count, 2, generator=generator, dtype=torch.float64) - 1)
    factors[0] = 1
    return factors * torch.tensor(valley.start, dtype=torch.float64)


def _paths(
    name: str, valleys: Sequence[Valley], starts: Sequence[Tensor], rates: Sequence[float], steps: int
) -> Tensor:
    """The points of all descents, which run in parallel, (valleys, rates, starts, steps + 1, 2)."""
    kind = parse(name)[0]
    if kind == "lbfgs" and len(valleys) * len(rates) * len(starts[0]) > 1:  # it takes all parameters for one vector
        alone = [
            [[_paths(name, [v], [start[None]], [lr], steps)[0, 0, 0] for start in own] for lr in rates]
            for v, own in zip(valleys, starts, strict=True)
        ]
        return torch.stack([torch.stack([torch.stack(row) for row in rows]) for rows in alone])
    points = torch.stack(list(starts)).repeat(len(rates), 1, 1, 1)  # (rates, valleys, starts, 2)
    slopes = torch.zeros_like(points)  # the parameters are views of the points, their gradients of these
    groups: list[list[nn.Parameter]] = []
    for row, gradient in zip(points, slopes, strict=True):
        views = (
            [(row, gradient)] if kind not in COUPLED else zip(row.flatten(0, 1), gradient.flatten(0, 1), strict=True)
        )
        groups.append([])
        for view, slope in views:
            parameter = nn.Parameter(view)
            parameter.grad = slope
            groups[-1].append(parameter)
    opt = optimizer(name, groups[0], rates[0])
    for lr, group in zip(rates[1:], groups[1:], strict=True):
        opt.add_param_group({"params": group, "lr": lr})
    path = torch.empty(steps + 1, *points.shape, dtype=torch.float64)

    def height() -> float:
        here = points.clone().requires_grad_()
        heights = [valley.height(here[:, i, :, 0], here[:, i, :, 1]).sum() for i, valley in enumerate(valleys)]
        total = torch.stack(heights).sum()
        slopes.copy_(torch.autograd.grad(total, here)[0])
        return float(total.detach())

    for step in range(steps + 1):
        path[step] = points
        if step < steps:
            opt.step(height)
    return path.permute(2, 1, 3, 0, 4)


def _judged(valley: Valley, path: Tensor, tolerance: float) -> Descent:
    """A path as a descent; it ends where it rises above its start, and is within the tolerance only if it stays so.

    Else the fastest path would be a leap far out of the valley: where a function is a square, the gradient there tells
    an optimizer that divides by the gradients before exactly how far it is to the minimum.
    """
    heights = (valley.height(path[:, 0], path[:, 1]) - valley.floor).nan_to_num(math.inf, math.inf, math.inf)
    shares = (heights / heights[0]).tolist()
    points = [(x, y) for x, y in path.tolist()]
    above = next((i for i, share in enumerate(shares) if share > 1 + ROUNDING), None)
    if above is not None:
        return Descent(tuple(points[:above]), math.inf, None)
    late = next((i for i in range(len(shares) - 1, -1, -1) if shares[i] > tolerance), -1)
    return Descent(tuple(points), shares[-1], late + 1 if late + 1 < len(shares) else None)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Who needs the fewest steps on each function, as far as the starts can tell."""
    lines, best = [], []
    for valley, found in numbers["descents"].items():
        there = [name for name, each in found.items() if None not in each["reached"]]
        first = _fewest(found, numbers["steps"])
        if not first:
            lines.append(f"{valley.capitalize()}: none of {len(found)} reaches the tolerance from all starts.")
            best.append(f"none on the {valley}")
            continue
        words = f"{_short(first[0])} needs the fewest steps, {_steps(found[first[0]])}"
        if len(first) > 1:
            rest = [f"{_short(name)} ({_steps(found[name])})" for name in first[1:]]
            words += f", and cannot be told apart from {listed(rest)}"
        lines.append(f"{valley.capitalize()}: {len(there)} of {len(found)} reach the tolerance; {words}.")
        best.append(f"{listed([_short(name) for name in first])} on the {valley}")
    return (f"Fewest steps, each at its best rate: {'; '.join(best)}.", *lines)


def _fewest(found: Mapping[str, Mapping[str, Any]], steps: int) -> list[str]:
    """The optimizer that needs the fewest steps and those that cannot be told apart from it, if any arrives at all."""
    there = {name: _costs(each, steps) for name, each in found.items() if None not in each["reached"]}
    return alike(there, lowest=True) if there else []


def _costs(each: Mapping[str, Any], steps: int) -> list[float]:
    return [cost(reached, end, steps) for reached, end in zip(each["reached"], each["ends"], strict=True)]


def _steps(each: Mapping[str, Any]) -> str:
    """The median and the range of the steps over the starts, or how many starts do not come so far."""
    reached = [step for step in each["reached"] if step is not None]
    missed = len(each["reached"]) - len(reached)
    if missed:
        return f"not from {missed} of {len(each['reached'])}"
    return f"{median(reached):g} ({min(reached)} to {max(reached)})"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """A small panel for each optimizer on each function, all of one function with the same levels."""
    names = list(next(iter(numbers["descents"].values())))
    columns = min(COLUMNS, len(names))
    lines = math.ceil(len(names) / columns)
    figure = new_figure(max(6.5, 1.9 * columns), 1.62 * lines * len(VALLEYS) + 1.9)
    blocks = figure.subfigures(len(VALLEYS), 1, squeeze=False)[:, 0]
    for block, (title, valley) in zip(blocks, VALLEYS.items(), strict=True):
        block.suptitle(f"{title.capitalize()}: {valley.formula}", x=0.012, ha="left", fontsize=10, fontweight="bold",
                       color=INK)  # fmt: skip
        found = numbers["descents"][title]
        fewest = _fewest(found, numbers["steps"])
        panels = block.subplots(lines, columns, squeeze=False).flat
        for axes, name in zip(panels, names, strict=False):
            _draw_descent(axes, valley, found[name])
            dress(axes, grid=False)
            axes.set_title(f"{_short(name)}, rate {found[name]['lr']:g}\n{_steps(found[name])}", fontsize=7, pad=3,
                           loc="left", color=INK, fontweight="bold" if name in fewest else "normal")  # fmt: skip
            axes.set_xticks([])
            axes.set_yticks([])
        for axes in block.axes[len(names) :]:
            axes.set_axis_off()
    return figure


def _draw_descent(axes: Axes, valley: Valley, each: Mapping[str, Any]) -> None:
    xs, ys = ([point[i] for point in each["path"]] for i in (0, 1))
    left, right, bottom, top = valley.window
    sides = [(min(left, *xs), max(right, *xs)), (min(bottom, *ys), max(top, *ys))]
    (left, right), (bottom, top) = ((low - 0.04 * (high - low), high + 0.04 * (high - low)) for low, high in sides)
    x, y = (torch.linspace(low, high, 61, dtype=torch.float64) for low, high in ((left, right), (bottom, top)))
    heights = valley.height(x[None, :], y[:, None])
    contours(axes, x.tolist(), y.tolist(), heights.tolist(), levels=_levels(valley), labels=False)
    axes.plot(xs, ys, ".-", color=PALETTE[1], linewidth=1.1, markersize=2.5)
    axes.plot(*valley.start, "o", color=INK, markersize=4)
    for spot in valley.minima:
        axes.plot(*spot, "*", color="white", markeredgecolor=INK, markersize=8, markeredgewidth=0.7)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)


def _levels(valley: Valley) -> list[float]:
    left, right, bottom, top = valley.window
    x, y = torch.linspace(left, right, 61, dtype=torch.float64), torch.linspace(bottom, top, 61, dtype=torch.float64)
    return levels_of(valley.height(x[None, :], y[:, None]).tolist(), count=10)


def _short(name: str) -> str:
    return (
        name.replace("sgd:momentum=0.9,nesterov=true", "sgd, nesterov 0.9")
        .replace("sgd:momentum=0.9", "sgd, momentum 0.9")
        .replace("lbfgs:max_iter=1,history_size=5", "lbfgs")
    )

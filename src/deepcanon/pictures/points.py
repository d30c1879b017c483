"""Scatter plots: data and samples, decision regions, latent codes, predicted against true values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.core.plural import counted
from deepcanon.pictures.class_names import class_names
from deepcanon.pictures.style import INK, MUTED, PALETTE, colors, dress, legend, new_figure

RESOLUTION = 240
MANY = 4
"""From so many points at one place on, they are drawn side by side."""
GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
PLAIN = ("feature 1", "feature 2")


def scatter(points: Mapping[str, Tensor], title: str = "", names: tuple[str, str] = PLAIN) -> Figure:
    """Named clouds of 2-D points side by side on the same axes; the first one is gray and below the others."""
    clouds = {name: _plane(x) for name, x in points.items()}
    first, *_ = clouds.values()
    low, high = window(first)
    figure = new_figure(3.8 * len(clouds), 3.6 * _slimness(low, high) + 1.1, title)
    for column, ((name, x), color) in enumerate(zip(clouds.items(), colors(len(clouds)), strict=True), start=1):
        axes = figure.add_subplot(1, len(clouds), column)
        if column > 1:
            axes.scatter(first[:, 0], first[:, 1], s=4, color=MUTED, alpha=0.18, linewidths=0)
        axes.scatter(x[:, 0], x[:, 1], s=5, color=color, alpha=0.55, linewidths=0)
        outside = float(((x < low) | (x > high)).any(1).double().mean())
        note = f" ({outside:.0%} outside)" if outside >= 0.005 else ""
        dress(axes, f"{name}: {counted(len(x), 'example')}{note}", *names)
        frame(axes, low, high)
    return figure


def decision_map(
    predict: Callable[[Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    labels: Sequence[str] = (),
    title: str = "",
    names: tuple[str, str] = PLAIN,
) -> Figure:
    """The decision regions of a classifier of 2-D points: colors are classes, paler where it is less confident.

    ``predict`` gives the probabilities of the classes, (B, classes).
    """
    points, classes = _plane(x), y.detach().cpu()
    low, high = window(points)
    figure = new_figure(5.8, 5.2 * _slimness(low, high) + 0.8)
    axes = figure.add_subplot()
    _draw_regions(axes, predict, x, low, high)
    _classes(axes, points, classes, labels, size=14)
    dress(axes, title, *names, grid=False)
    frame(axes, low, high)
    legend(axes)
    return figure


def decision_maps(
    predictors: Mapping[str, Callable[[Tensor], Tensor]],
    unlabeled: Tensor,
    x: Tensor,
    y: Tensor,
    labels: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """Decision regions of several classifiers side by side, with the few labeled points large among the unlabeled."""
    points, known, classes = _plane(unlabeled), _plane(x), y.detach().cpu()
    low, high = window(points)
    across = min(2, len(predictors))
    down = -(-len(predictors) // across)
    figure = new_figure(4.6 * across, (4.2 * _slimness(low, high) + 0.7) * down + 0.4, title)
    for panel, (name, predict) in enumerate(predictors.items(), start=1):
        axes = figure.add_subplot(down, across, panel)
        _draw_regions(axes, predict, unlabeled, low, high)
        axes.scatter(points[:, 0], points[:, 1], s=1.5, color=INK, alpha=0.25, linewidths=0)
        names = _names(classes, labels)
        for c, (label, color) in enumerate(zip(names, colors(len(names)), strict=True)):
            spots = known[classes == c]
            axes.scatter(spots[:, 0], spots[:, 1], s=90, color=color, edgecolors="white", linewidths=1.6, label=label)
        dress(axes, name, grid=False)
        frame(axes, low, high)
        if panel == 1:
            legend(axes)
    return figure


def _draw_regions(axes: Axes, predict: Callable[[Tensor], Tensor], like: Tensor, low: Tensor, high: Tensor) -> None:
    """Color the window from ``low`` to ``high`` by the predicted classes there of examples shaped ``like`` these."""
    across, down = (torch.linspace(float(low[i]), float(high[i]), RESOLUTION) for i in (0, 1))
    grid = torch.cartesian_prod(down, across).flip(1).to(like)  # row by row, as pictures are
    probabilities = predict(grid.reshape(-1, *like.shape[1:])).detach().cpu().float()
    shades = torch.tensor([to_rgb(color) for color in colors(probabilities.shape[1])])
    predicted = probabilities.argmax(1)
    uniform = 1 / probabilities.shape[1]
    confidence = ((probabilities.max(1).values - uniform) / (1 - uniform)).clamp(0, 1).unsqueeze(1)
    picture = 1 - (0.1 + 0.4 * confidence) * (1 - shades[predicted])
    axes.imshow(
        picture.reshape(RESOLUTION, RESOLUTION, 3).numpy(), origin="lower", interpolation="bilinear",
        extent=(float(low[0]), float(high[0]), float(low[1]), float(high[1])),
    )  # fmt: skip
    first, second = probabilities.topk(2).values.T
    for c in predicted.unique().tolist():
        margin = probabilities[:, c] - torch.where(predicted == c, second, first)
        if margin.min() < 0 < margin.max():
            axes.contour(
                across.numpy(), down.numpy(), margin.reshape(RESOLUTION, RESOLUTION).numpy(),
                levels=[0.0], colors=INK, linewidths=0.9,
            )  # fmt: skip


def latent_map(z: Tensor, y: Tensor, labels: Sequence[str] = (), title: str = "") -> Figure:
    """Latent codes colored by class, on their first two principal components where there are more than two."""
    codes, axes_names = principal_plane(z)
    codes = _side_by_side(codes)
    figure = new_figure(5.8, 5.2)
    axes = figure.add_subplot()
    classes = y.detach().cpu()
    _classes(axes, codes, classes, labels, size=9)
    _name_classes(axes, codes, classes, labels)
    dress(axes, title, *axes_names)
    return figure


def _side_by_side(points: Tensor) -> Tensor:
    """The points, those at one and the same place, as binary codes are, laid around it in a spiral."""
    _, place, counts = (points * 1e4).round().unique(dim=0, return_inverse=True, return_counts=True)
    if int(counts.max()) < MANY:
        return points
    order = torch.argsort(place, stable=True)
    number = torch.empty_like(place)
    number[order] = torch.arange(len(place)) - (counts.cumsum(0) - counts)[place[order]]
    angle, width = number * GOLDEN_ANGLE, 0.006 * (points.amax(0) - points.amin(0))
    return points + number.sqrt().unsqueeze(1) * width * torch.stack([angle.cos(), angle.sin()], 1)


def example_map(
    points: Tensor, new: Tensor, classes: tuple[Tensor, Tensor] | None, labels: Sequence[str], title: str = ""
) -> Figure:
    """A map of examples, (N, 2), and of new ones among them, (M, 2), which have a black edge; colored by class."""
    plane, places = _plane(points), _plane(new)
    figure = new_figure(7.2, 6.4)
    axes = figure.add_subplot()
    dress(axes, title, grid=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    own, others = (
        (torch.zeros(len(p)).long() for p in (plane, places)) if classes is None else (each.cpu() for each in classes)
    )
    for c, color in enumerate(colors(1 + int(own.max()))):
        for which, size, edge in ((plane[own == c], 9, 0.0), (places[others == c], 17, 0.7)):
            axes.scatter(which[:, 0], which[:, 1], s=size, color=color, alpha=0.85, linewidths=edge, edgecolors=INK)
    if classes is not None:
        _name_classes(axes, plane, own, labels)
    return figure


def _name_classes(axes: Axes, points: Tensor, classes: Tensor, labels: Sequence[str]) -> None:
    """The name of each class in the middle of its points."""
    names = _names(classes, labels)
    for c, color in enumerate(colors(len(names))):
        if (classes == c).any():
            x, y = points[classes == c].median(0).values.tolist()
            axes.annotate(
                names[c], (x, y), ha="center", va="center", fontsize=13, zorder=5,
                fontweight="bold", color=color, path_effects=[withStroke(linewidth=4, foreground="white")],
            )  # fmt: skip


def truth_plot(predicted: Tensor, true: Tensor, title: str = "", name: str = "value") -> Figure:
    """Predicted against true values of a regression, one panel per target; the line is where they agree."""
    prediction, truth = (t.detach().cpu().double().reshape(len(t), -1) for t in (predicted, true))
    targets = truth.shape[1]
    figure = new_figure(4.2 * targets + 0.2, 4.2, title)
    for j in range(targets):
        axes = figure.add_subplot(1, targets, j + 1)
        error = (prediction[:, j] - truth[:, j]).square().sum()
        spread = (truth[:, j] - truth[:, j].mean()).square().sum()
        both = torch.cat([prediction[:, j], truth[:, j]])
        ends = [float(both.min()), float(both.max())]
        axes.plot(ends, ends, color=MUTED, linewidth=1, linestyle="--", label="exact")
        axes.scatter(truth[:, j], prediction[:, j], s=12, color=PALETTE[0], alpha=0.5, linewidths=0, label="examples")
        which = f"target {j + 1}: " if targets > 1 else ""
        explained = f"R² = {float(1 - error / spread):.3f}" if spread > 0 else "the target is constant"
        dress(axes, f"{which}{explained}", f"true {name}", f"predicted {name}")
        axes.set_aspect("equal", adjustable="datalim")
        legend(axes)
    return figure


def function_plot(
    predict: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, title: str = "", names: tuple[str, str] = ("x", "y")
) -> Figure:
    """A regression on the line: what is predicted everywhere over the examples, one panel per target.

    ``predict`` maps (B, 1) to (B, targets).
    """
    inputs, truth = (t.detach().cpu().double().reshape(len(t), -1) for t in (x, y))
    low, high = float(inputs.min()), float(inputs.max())
    grid = torch.linspace(low, high, 1001, dtype=torch.float64).unsqueeze(1)
    prediction = predict(grid.to(x)).detach().cpu().double().reshape(len(grid), -1)
    targets = truth.shape[1]
    figure = new_figure(6.4 * targets, 3.8, title)
    for j in range(targets):
        axes = figure.add_subplot(1, targets, j + 1)
        axes.scatter(inputs[:, 0], truth[:, j], s=12, color=MUTED, alpha=0.5, linewidths=0, label="examples")
        axes.plot(grid[:, 0], prediction[:, j], color=PALETTE[0], linewidth=1.8, label="predicted")
        dress(axes, f"target {j + 1}" if targets > 1 else "", *names)
        legend(axes)
    return figure


@dataclass(frozen=True)
class Plane:
    """A plane through codes: ``of`` gives the points of codes, (B, 2), and ``codes`` those of points of the plane."""

    center: Tensor
    directions: Tensor
    """Two unit vectors at right angles, (2, latent)."""
    names: tuple[str, str]

    def of(self, z: Tensor) -> Tensor:
        return (z.detach().cpu().double().flatten(1) - self.center) @ self.directions.T

    def codes(self, points: Tensor) -> Tensor:
        return points.double() @ self.directions + self.center


def plane_of(z: Tensor) -> Plane:
    """The plane of codes of two dimensions, or that of the first two principal components of others."""
    codes = z.detach().cpu().double().flatten(1)
    if codes.shape[1] < 2:
        raise UsageError(f"a map of codes needs at least two dimensions, got {codes.shape[1]}")
    if codes.shape[1] == 2:
        return Plane(torch.zeros_like(codes[0]), torch.eye(2, dtype=codes.dtype), ("latent 1", "latent 2"))
    center = codes.mean(0)
    _, widths, directions = torch.linalg.svd(codes - center, full_matrices=False)
    largest = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    directions = directions * largest.sign()  # a component has no sign of its own; this one never flips
    shares = (widths.square() / widths.square().sum().clamp_min(torch.finfo(torch.float64).tiny)).tolist()
    first, second = (f"component {i + 1} ({shares[i]:.0%} of the variance)" for i in (0, 1))
    return Plane(center, directions[:2], (first, second))


def principal_plane(z: Tensor) -> tuple[Tensor, tuple[str, str]]:
    """Codes in two dimensions, (B, 2), with the names of the axes: themselves, or their principal components."""
    plane = plane_of(z)
    return plane.of(z), plane.names


def _classes(axes: Axes, points: Tensor, classes: Tensor, labels: Sequence[str], size: float) -> None:
    names = _names(classes, labels)
    for c, (name, color) in enumerate(zip(names, colors(len(names)), strict=True)):
        x, y = points[classes == c].T
        axes.scatter(x, y, s=size, color=color, alpha=0.85, linewidths=0.3, edgecolors="white", label=name)


def _names(classes: Tensor, labels: Sequence[str]) -> list[str]:
    return class_names(labels, int(classes.max()) + 1)


def _plane(x: Tensor) -> Tensor:
    points = x.detach().cpu().double().flatten(1)
    if points.shape[1] != 2:
        raise UsageError(
            f"a scatter picture needs points in the plane, got {counted(points.shape[1], 'value')} per example"
        )
    return points


def window(points: Tensor) -> tuple[Tensor, Tensor]:
    """The corners of the part of the plane that shows all points, with a margin."""
    low, high = points.min(0).values, points.max(0).values
    margin = 0.12 * (high - low).clamp_min(1e-6)
    return low - margin, high + margin


def _slimness(low: Tensor, high: Tensor) -> float:
    """Height over width of a window, kept within what fits a page; the axes are equal where it is kept as it is."""
    width, height = (high - low).tolist()
    return float(min(1.4, max(0.35, height / width)))


def frame(axes: Axes, low: Tensor, high: Tensor) -> None:
    """Show the window from ``low`` to ``high``, with equal axes where that fits a page."""
    axes.set_xlim(float(low[0]), float(high[0]))
    axes.set_ylim(float(low[1]), float(high[1]))
    width, height = (high - low).tolist()
    axes.set_aspect("equal" if height / width == _slimness(low, high) else "auto")

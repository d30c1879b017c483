"""Sharpness of minima: the rise of the loss around the trained weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator

from deepcanon.core import Labeled, UsageError, drawing_from
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.data import load_data
from deepcanon.insights._engines.objective import Objective
from deepcanon.insights._engines.spectrum import hessian_product, lanczos
from deepcanon.insights.landscape import over_line, over_plane, random_direction
from deepcanon.pictures.style import PALETTE, dress, legend, new_figure
from deepcanon.pictures.surfaces import contours
from deepcanon.studies._helpers.learning_curves import learning_curve
from deepcanon.studies.residuals import DeepClassifier, Kind

REACH = 1.0
"""The extent of the slices, in lengths of the filters."""


def sharpness(
    *,
    data: str = "digits",
    batches: tuple[int, int] = (16, 512),
    depth: int = 12,
    width: int = 32,
    steps: int = 800,
    examples: int = 400,
    points: int = 21,
    lines: int = 8,
    seed: int = 0,
) -> Finding:
    r"""The sharpness of minima: with small and large batches, with residual connections and without.

    All networks are trained by the same number of steps of Adam, so that one with large batches gets more examples and
    fits them further: the batch size is not the only difference. Around the weights of each, the loss is measured over
    a random plane and along random lines, whose directions are scaled filter by filter to the weights (filter
    normalization), so that networks with weights of different size can be compared,

    .. math:: f(\alpha, \beta) = L(\theta + \alpha a + \beta b), \qquad
        a_i \leftarrow a_i \, \lVert\theta_i\rVert / \lVert a_i\rVert .

    Also reported are the largest eigenvalue of the Hessian, which depends on the size of the weights, and the test
    accuracy.

    References:
        | On large-batch training for deep learning: generalization gap and sharp minima (Keskar et al., 2017),
          https://arxiv.org/abs/1609.04836
        | Visualizing the loss landscape of neural nets (Li et al., 2018), https://arxiv.org/abs/1712.09913

    Arguments:
        data: The data set by name; its examples have classes.
        batches: A small and a large batch size; networks are compared by kind at the small one.
        depth: The number of layers of each network.
        width: The units of each layer.
        steps: The training steps of each network.
        examples: How many training examples the loss of the slices is the mean over.
        points: How many points a slice has along each direction.
        lines: The number of random lines along which the loss is measured.
        seed: The seed of the random numbers.
    """
    at_least(1, depth=depth, width=width, steps=steps, examples=examples, lines=lines)
    at_least(3, points=points)
    loaded = load_data(data)
    if "classes" not in loaded.sizes:
        raise UsageError(f"this study needs examples with classes; {loaded.name} has none")
    some = loaded.train.select(torch.arange(min(examples, len(loaded.train))))
    small, large = batches
    candidates: dict[str, tuple[Kind, int]] = {
        f"batches of {small}": ("residual", small),
        f"batches of {large}": ("residual", large),
        "plain": ("plain", small),
    }
    found = {}
    for name, (kind, size) in candidates.items():
        with drawing_from(Generator().manual_seed(seed)):
            model = DeepClassifier(loaded.sizes["features"], loaded.sizes["classes"], kind, depth, width)
        learning_curve(model, loaded, optimizer="adam", lr=2e-3, batch_size=size, steps=steps, seed=seed)
        found[name] = around(model, some, loaded.split("test"), points, lines, seed)
    numbers = {
        "depth": depth,
        "pairs": [[f"batches of {small}", f"batches of {large}"], [f"batches of {small}", "plain"]],
        "networks": found,
    }
    says = tuple(
        f"{_name(numbers, name).capitalize()}: loss {each['loss']:.2g}, at the ends of lines {each['rise']:.3g} more, "
        f"largest eigenvalue {each['largest_eigenvalue']:.3g}, {each['accuracy']:.1%} right on test data."
        for name, each in found.items()
    )
    return Finding(numbers, _figure(numbers), says)


def around(model: DeepClassifier, batch: Labeled, held: Labeled, points: int, lines: int, seed: int) -> dict[str, Any]:
    """The slices of the loss around a model, its curvature and its accuracy."""
    loss = Objective(model, batch)
    steps = [REACH * (2 * i / (points - 1) - 1) for i in range(points)]
    directions = [random_direction(loss.parameters, seed + i) for i in range(max(2, lines))]
    along = [over_line(loss, loss.state, direction, steps) for direction in directions[:lines]]
    here = float(loss(loss.theta).detach())
    ends = [(line[0] + line[-1]) / 2 for line in along]
    spectrum = lanczos(hessian_product(loss, loss.theta), len(loss.theta), steps=20, seed=seed, like=loss.theta)
    with torch.no_grad():
        right = (model(held.x).argmax(-1) == held.y).double().mean().item()
    return {
        "loss": here,
        "rise": sum(ends) / len(ends) - here,
        "largest_eigenvalue": float(spectrum.values[-1]),
        "accuracy": right,
        "steps": steps,
        "plane": over_plane(loss, loss.state, directions[0], directions[1], steps, steps),
        "lines": along,
    }


def _name(numbers: Mapping[str, Any], name: str) -> str:
    return f"{numbers['depth']} layers, plain" if name == "plain" else f"{numbers['depth']} layers, residual, {name}"


def _figure(numbers: Mapping[str, Any]) -> Figure:
    found = numbers["networks"]
    lowest = min(found, key=lambda name: found[name]["rise"])
    figure = new_figure(13.2, 8.4, f"The flattest minimum: {_name(numbers, lowest)}")
    grid = figure.add_gridspec(2, 6)
    for column, (name, each) in enumerate(found.items()):
        axes = figure.add_subplot(grid[0, 2 * column : 2 * column + 2])
        contours(axes, each["steps"], each["steps"], each["plane"])
        axes.plot([0], [0], "*", color=PALETTE[1], markersize=11, markeredgecolor="white")
        title = f"{_name(numbers, name)}: {each['accuracy']:.1%} right"
        dress(axes, title, "step in lengths of the filters", "step in another direction", grid=False)
        axes.set_aspect("equal")
    for column, pair in enumerate(numbers["pairs"]):
        axes = figure.add_subplot(grid[1, 3 * column : 3 * column + 3])
        _draw_lines(axes, {_name(numbers, name): found[name] for name in pair})
    return figure


def _draw_lines(axes: Axes, found: Mapping[str, Mapping[str, Any]]) -> None:
    """The mean and the range of the loss along all lines, of each network."""
    for color, (name, each) in zip(PALETTE, found.items(), strict=False):
        by_step: list[Sequence[float]] = list(zip(*each["lines"], strict=True))
        means = [sum(values) / len(values) for values in by_step]
        axes.plot(each["steps"], means, color=color, label=f"{name}, λmax {each['largest_eigenvalue']:.3g}")
        axes.fill_between(
            each["steps"], [min(values) for values in by_step], [max(values) for values in by_step],
            color=color, alpha=0.15, linewidth=0,
        )  # fmt: skip
    highest = max(value for each in found.values() for line in each["lines"] for value in line if math.isfinite(value))
    lowest = min(value for each in found.values() for line in each["lines"] for value in line)
    if 0 < 20 * lowest < highest:
        axes.set_yscale("log")
        axes.set_ylim(bottom=lowest / 10)  # room for the legend
    dress(axes, "Along random lines, mean and range", "step in lengths of the filters", "training loss in nats")
    legend(axes)

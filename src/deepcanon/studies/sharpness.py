"""Sharpness of minima: the rise of the loss around the trained weights."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from deepcanon.core import Labeled, Model, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.insights._engines.objective import Objective
from deepcanon.insights._engines.spectrum import hessian_product, lanczos
from deepcanon.insights.landscape import over_line, over_plane, random_direction
from deepcanon.pictures.style import PALETTE, dress, legend, new_figure
from deepcanon.pictures.surfaces import contours, levels_of
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, alike, classification, draw_band, interval, listed
from deepcanon.studies.residuals import DeepClassifier, Kind

RATES = (0.0003, 0.001, 0.003, 0.01)
"""The learning rates of Adam with which the search for the best one begins."""
REACH = 1.0
"""The extent of the slices, in lengths of the filters."""


def sharpness(
    *,
    data: str = "digits",
    batches: tuple[int, int] = (16, 256),
    depth: int = 12,
    width: int = 32,
    loss: float = 0.1,
    steps: int = 600,
    examples: int = 400,
    points: int = 21,
    lines: int = 8,
    seeds: int = 5,
    seed: int = 0,
) -> Finding:
    r"""The sharpness of minima: with small and large batches, with residual connections and without.

    Each kind of network is trained by Adam, at the learning rate that is best for it on validation data, until it has
    the same training loss, since where a network fits further its loss is flatter and steeper around. Around the
    weights of each, the loss is measured over a random plane and along random lines, whose directions are scaled filter
    by filter to the weights (filter normalization), so that networks with weights of different size can be compared,

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
        loss: The training loss at which a training ends.
        steps: The most steps of a training.
        examples: How many training examples the loss of the slices is the mean over.
        points: How many points a slice has along each direction.
        lines: The number of random lines along which the loss is measured.
        seeds: From how many initial weights each kind is trained.
        seed: The seed of the random numbers.
    """
    at_least(1, depth=depth, width=width, steps=steps, examples=examples, lines=lines)
    at_least(2, seeds=seeds)
    at_least(3, points=points)
    if not loss > 0:
        raise UsageError(f"loss is the training loss to be reached, above zero (got {loss})")
    loaded = load_data(data)
    if "classes" not in loaded.sizes:
        raise UsageError(f"this study needs examples with classes; {loaded.name} has none")
    some = loaded.train.select(torch.arange(min(examples, len(loaded.train))))
    small, large = batches
    candidates: dict[str, tuple[Kind, int]] = {
        f"residual in batches of {small}": ("residual", small),
        f"residual in batches of {large}": ("residual", large),
        f"plain in batches of {small}": ("plain", small),
    }
    found = {}
    for name, (kind, size) in candidates.items():

        def network(kind: Kind = kind) -> DeepClassifier:
            return DeepClassifier(loaded.sizes["features"], loaded.sizes["classes"], kind, depth, width)

        trained, models = classification(
            network, loaded, steps=steps, seeds=seeds, seed=seed, optimizer="adam", rates=RATES, batch_size=size,
            until=loss,
        )  # fmt: skip
        measured = [around(model, some, points, lines, seed) for model in models]
        found[name] = trained | {key: [each[key] for each in measured] for key in measured[0]}
    settings = (
        f"{loaded.name}, {counted(depth, 'layer')} of {counted(width, 'unit')}; Adam in batches of {small} and "
        f"{large}, each at its best rate on validation data of {RATES[0]:g} to {RATES[-1]:g} and beyond where that is "
        f"best, to a training loss of {loss:g} or {counted(steps, 'step')}; the loss of {len(some)} of "
        f"{counted(examples, 'example')} on {counted(lines, 'line')} of {points} points, directions of the length of "
        f"each filter; {counted(seeds, 'seed')}, {CERTAIN}"
    )
    numbers = {
        "settings": settings,
        "depth": depth,
        "grid": [REACH * (2 * i / (points - 1) - 1) for i in range(points)],
        "networks": found,
    }
    return concluded(numbers, sentences, draw)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Which minimum is flattest, by the rise along lines and by the largest eigenvalue of the Hessian."""
    found = numbers["networks"]
    by = {
        key: alike({name: each[key] for name, each in found.items()}, lowest=True)
        for key in ("rise", "largest_eigenvalue")
    }
    rise, curved = by.values()
    if set(rise) == set(curved):
        verdict = f"both call {_flattest(rise)}"
    else:
        verdict = f"the rise along random lines calls {_flattest(rise)}, the largest eigenvalue {_flattest(curved)}"
    verdict += (
        f"; {rise[0]}: rise {_spread(found[rise[0]]['rise'])} nats, eigenvalue "
        f"{_spread(found[rise[0]]['largest_eigenvalue'])}"
    )
    return (
        f"Two measures of sharpness at {counted(numbers['depth'], 'layer')}: {verdict}.",
        *(
            f"{name.capitalize()}: training loss {_spread(each['losses'])}, at the ends of lines "
            f"{_spread(each['rise'])} more, largest eigenvalue {_spread(each['largest_eigenvalue'])}, "
            f"{fmean(each['accuracies']):.1%} ± {interval(each['accuracies'])[1]:.1%} right on test data, at rate "
            f"{each['rate']:g}."
            for name, each in found.items()
        ),
    )


def _flattest(names: list[str]) -> str:
    return f"{names[0]} the flattest" if len(names) == 1 else f"{listed(names)} flattest and cannot tell them apart"


def _spread(values: list[float | None]) -> str:
    """The mean over the seeds with its confidence interval, in words."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "not finite"
    middle, width = interval(known)
    return f"{middle:.3g} ± {width:.2g}"


def around(model: Model[Any], batch: Labeled, points: int, lines: int, seed: int) -> dict[str, Any]:
    """The slices of the loss around a model, and its curvature."""
    loss = Objective(model, batch)
    steps = [REACH * (2 * i / (points - 1) - 1) for i in range(points)]
    directions = [random_direction(loss.parameters, seed + i) for i in range(max(2, lines))]
    along = [over_line(loss, loss.state, direction, steps) for direction in directions[:lines]]
    here = float(loss(loss.theta).detach())
    ends = [(line[0] + line[-1]) / 2 for line in along]
    spectrum = lanczos(hessian_product(loss, loss.theta), len(loss.theta), steps=20, seed=seed, like=loss.theta)
    return {
        "loss": here,
        "rise": sum(ends) / len(ends) - here,
        "largest_eigenvalue": float(spectrum.values[-1]),
        "plane": over_plane(loss, loss.state, directions[0], directions[1], steps, steps),
        "lines": along,
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """A plane around a network of each kind, all with the same levels, and the lines of all networks."""
    found, grid = numbers["networks"], numbers["grid"]
    figure = new_figure(13.2, 9.0)
    places = figure.add_gridspec(2, 3)
    planes = {name: each["plane"][0] for name, each in found.items()}
    levels = levels_of(*planes.values())
    for column, (name, plane) in enumerate(planes.items()):
        axes = figure.add_subplot(places[0, column])
        contours(axes, grid, grid, plane, levels=levels)
        axes.plot([0], [0], "*", color=PALETTE[1], markersize=11, markeredgecolor="white")
        title = f"{name.capitalize()}, first seed"
        dress(axes, title, "step in lengths of the filters", "" if column else "step in another direction", grid=False)
        axes.set_aspect("equal")
    lines, rises, eigenvalues = (figure.add_subplot(places[1, column]) for column in range(3))
    for color, (name, each) in zip(PALETTE, found.items(), strict=False):
        draw_band(lines, grid, [line for of_seed in each["lines"] for line in of_seed], color, name)
    lines.set_yscale("log")
    lowest, highest = lines.get_ylim()
    lines.set_ylim(lowest, highest * (highest / lowest) ** 0.35)  # room for the legend
    dress(lines, "Along random lines, mean and range", "step in lengths of the filters", "training loss in nats")
    legend(lines).set_loc("upper center")
    _draw_seeds(rises, found, "rise", "Rise of the loss at the ends of the lines")
    _draw_seeds(eigenvalues, found, "largest_eigenvalue", "Largest eigenvalue of the Hessian")
    return figure


def _draw_seeds(axes: Axes, found: Mapping[str, Mapping[str, Any]], key: str, title: str) -> None:
    """A dot for each seed, and the mean with its confidence interval next to them."""
    for place, (color, each) in enumerate(zip(PALETTE, found.values(), strict=False)):
        values = [value for value in each[key] if value is not None]
        axes.plot([place] * len(values), values, "o", color=color, markersize=4, alpha=0.6)
        if len(values) > 1:
            middle, width = interval(values)
            axes.errorbar([place + 0.15], [middle], [width], fmt="_", color=color, capsize=4, markersize=10)
    axes.set_xticks(range(len(found)), [name.replace(" in ", "\nin ") for name in found])
    axes.set_xlim(-0.5, len(found) - 0.5)
    axes.set_ylim(bottom=0)
    dress(axes, f"{title}: seeds, mean and interval", "", "nats" if key == "rise" else "")

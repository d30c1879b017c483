"""Gradient noise: the variance of the gradient of a mini-batch around that of all examples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations_with_replacement
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from deepcanon.core import Labeled, Model
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.pictures.style import INK, LINE, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.train.randomness import kept, seed_torch

CHANGES = {"2 x step size": (2.0, 1.0), "2 x batch size": (1.0, 2.0), "2 x step size, half the batch": (2.0, 0.5)}
"""The changes, by their factors on the step size and on the batch size."""
RATE = 0.1
SIZE = 32
"""Step and batch size of the short training, and of the table before a change."""
FINER = 8
"""The factor of the number of batches that are drawn for the table, whose lengths are too noisy otherwise."""


def gradient_noise(
    mlp: type[Model[Any]],
    *,
    hidden: int = 32,
    examples: int = 512,
    few: int = 8,
    draws: int = 2000,
    steps: int = 300,
    seed: int = 0,
) -> Finding:
    r"""The variance of the gradient of a mini-batch, and its dependence on batch size and learning rate.

    The gradient of a batch of :math:`B` examples is unbiased. Its variance, summed over the parameters, is

    .. math::
        \mathrm{E}\lVert g_B - g \rVert^2 = \frac{\sigma^2}{B} \text{ with replacement}, \qquad
        \frac{\sigma^2}{B} \cdot \frac{N - B}{N - 1} \text{ without},

    with :math:`\sigma^2 = \frac1N \sum_i \lVert g_i - g \rVert^2` over the :math:`N` examples. On a few examples all
    possible batches are enumerated, on the digits batches are drawn. A step of length
    :math:`\lVert \epsilon\, \mathrm{E}[g_B] \rVert` and its variance are then compared for a loss that is the mean over
    the batch and for one that is the sum. At the noise scale :math:`B = \sigma^2 / \lVert g \rVert^2` noise and
    gradient are as large.

    References:
        | An empirical model of large-batch training (McCandlish et al., 2018), https://arxiv.org/abs/1812.06162
        | Don't decay the learning rate, increase the batch size (Smith et al., 2018), https://arxiv.org/abs/1711.00489

    Arguments:
        mlp: The multilayer perceptron of the catalogue.
        hidden: The width of its hidden layer.
        examples: How many digits :math:`N` there are.
        few: On how many of them all batches are enumerated.
        draws: How many batches of each size are drawn.
        steps: After how many steps of training the noise is measured again.
        seed: The seed of weights and draws.
    """
    at_least(2, few=few, draws=draws)
    at_least(2 * SIZE, examples=examples)
    digits = load_data("digits").train
    batch = digits.select(torch.arange(min(examples, len(digits))))
    with kept():
        seed_torch(seed)
        model = mlp(features=64, classes=10, hidden=(hidden,)).double()
        batch = Labeled(batch.x.double(), batch.y)
        stages = {"at the start": example_gradients(model, batch)}
        _descend(model, batch, steps, seed)
        stages[f"after {counted(steps, 'step')}"] = example_gradients(model, batch)
    start = stages["at the start"]
    generator = Generator().manual_seed(seed)
    small = {"few": few, "batch_sizes": list(range(1, few + 1)), **_enumerated(start[:few])}
    large = {name: _drawn(gradients, draws, generator) for name, gradients in stages.items()}
    settings = (
        f"digits: {len(batch)} of at most {counted(examples, 'example')}, {few} of them enumerated; one hidden layer "
        f"of {counted(hidden, 'unit')}; SGD at rate {RATE:g} in batches of {SIZE} for {counted(steps, 'step')}; "
        f"{counted(draws, 'batch', '', 'batches')} drawn of each size, {FINER} times as many for the table"
    )
    numbers = {
        "settings": settings,
        "examples": len(batch),
        "parameters": start.shape[1],
        "enumerated": small,
        "drawn": large,
        "table": step_table(start, FINER * draws, generator),
    }
    return concluded(numbers, sentences, draw)


def example_gradients(model: Model[Any], batch: Labeled) -> Tensor:
    """The gradient of the cross-entropy of every single example, (N, parameters)."""
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(functional_call(model, weights, (x.unsqueeze(0),)), y.unsqueeze(0))

    rows = vmap(grad(loss), (None, 0, 0))(weights, batch.x, batch.y)
    return torch.cat([row.flatten(1) for row in rows.values()], 1)


def spread(gradients: Tensor) -> float:
    """The variance of the gradient of one random example, summed over the parameters."""
    return float((gradients - gradients.mean(0)).square().sum(1).mean())


def batch_variance(sigma: float, size: float, population: int | None = None) -> float:
    """The variance of the mean over a batch: with replacement, or without from a population of this size.

    >>> batch_variance(6.0, 3), batch_variance(6.0, 3, population=5), batch_variance(6.0, 5, population=5)
    (2.0, 1.0, 0.0)
    """
    share = 1.0 if population is None else (population - size) / (population - 1)
    return sigma / size * share


def enumerated_variance(gradients: Tensor, size: int, replacement: bool) -> float:
    """The same by enumerating all batches: their squared distances from the mean, weighted by their probabilities."""
    products = _products(gradients)
    total, weights = 0.0, 0.0
    for counts, ways in _batches(len(gradients), size):
        if not replacement and max(counts) > 1:
            continue
        weight = ways if replacement else 1.0
        often = torch.tensor(counts, dtype=gradients.dtype)
        total += weight * float(often @ products @ often) / size**2
        weights += weight
    return total / weights


def drawn_counts(population: int, size: int, draws: int, replacement: bool, generator: Generator) -> Tensor:
    """The number of times each example is in each of the drawn batches, (draws, population)."""
    if replacement:
        chosen = torch.randint(population, (draws, size), generator=generator)
    else:
        chosen = torch.rand(draws, population, generator=generator).argsort(1)[:, :size]
    counts = torch.zeros(draws, population, dtype=torch.float64)
    return counts.scatter_add_(1, chosen, torch.ones(chosen.shape, dtype=torch.float64))


def step_table(gradients: Tensor, draws: int, generator: Generator) -> list[dict[str, Any]]:
    """The factors of each change on the length of the mean step and on the variance of the gradient.

    Batches are drawn with replacement. ``expected`` follows from the factors a and b on step and batch size: of a mean
    loss, length and variance are multiplied by a and 1/b, of a sum by a b and b.
    """
    before = _moments(gradients, SIZE, draws, generator)
    rows = []
    for name, (step, size) in CHANGES.items():
        after = _moments(gradients, round(size * SIZE), draws, generator)
        for kind, power in (("mean", 0), ("sum", 1)):
            length = step * size**power * after[0] / before[0]
            variance = size ** (2 * power) * after[1] / before[1]
            expected = (step, 1 / size) if kind == "mean" else (step * size, size)
            rows.append(
                {"change": name, "loss": kind, "length": length, "variance": variance, "expected": list(expected)}
            )
    return rows


def _products(gradients: Tensor) -> Tensor:
    """The inner products of all centered gradients (the Gram matrix), enough for a batch's distance from the mean."""
    apart = gradients - gradients.mean(0)
    products: Tensor = apart @ apart.T
    return products


def _batches(population: int, size: int) -> Iterator[tuple[list[int], float]]:
    """The counts of each example for all batches, and the number of orders in which a batch can be drawn."""
    for chosen in combinations_with_replacement(range(population), size):
        counts = [chosen.count(i) for i in range(population)]
        yield counts, math.factorial(size) / math.prod(map(math.factorial, counts))


def _descend(model: Model[Any], batch: Labeled, steps: int, seed: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    generator = Generator().manual_seed(seed)
    for _ in range(steps):
        chosen = batch.select(torch.randint(len(batch), (SIZE,), generator=generator))
        optimizer.zero_grad()
        sum(model.loss(chosen).values(), torch.zeros(())).backward()
        optimizer.step()


def _enumerated(gradients: Tensor) -> dict[str, Any]:
    sigma, few = spread(gradients), len(gradients)
    sizes = range(1, few + 1)
    return {
        "sigma": sigma,
        "with": [enumerated_variance(gradients, size, True) for size in sizes],
        "without": [enumerated_variance(gradients, size, False) for size in sizes],
        "expected_with": [batch_variance(sigma, size) for size in sizes],
        "expected_without": [batch_variance(sigma, size, few) for size in sizes],
    }


def _drawn(gradients: Tensor, draws: int, generator: Generator) -> dict[str, Any]:
    count, sigma, products = len(gradients), spread(gradients), _products(gradients)
    sizes = sorted({*(2**k for k in range(count.bit_length()) if 2**k <= count), 3 * count // 4, count})
    squared = float(gradients.mean(0).square().sum())

    def measured(size: int, replacement: bool) -> float:
        often = drawn_counts(count, size, draws, replacement, generator)
        return float(((often @ products) * often).sum(1).mean()) / size**2

    return {
        "sigma": sigma,
        "gradient": squared,
        "noise_scale": sigma / squared,
        "batch_sizes": sizes,
        "with": [measured(size, True) for size in sizes],
        "without": [measured(size, False) for size in sizes],
        "expected_with": [batch_variance(sigma, size) for size in sizes],
        "expected_without": [batch_variance(sigma, size, count) for size in sizes],
    }


def _moments(gradients: Tensor, size: int, draws: int, generator: Generator) -> tuple[float, float]:
    """The length of the mean and the variance of the drawn gradients of a mean loss."""
    often = drawn_counts(len(gradients), size, draws, True, generator) / size
    middle = often.mean(0)
    apart = often - middle
    variance = float(((apart @ _products(gradients)) * apart).sum()) / (draws - 1)
    return float((middle @ gradients).norm()), variance


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The variance by batch size, enumerated and drawn, and the table of changes."""
    figure = new_figure(13.2, 4.7)
    few, many, table = figure.subplots(1, 3, width_ratios=(1, 1.25, 1.35))
    small = numbers["enumerated"]
    for kind, color in (("with", PALETTE[0]), ("without", PALETTE[1])):
        few.plot(small["batch_sizes"], small[f"expected_{kind}"], color=color, label=f"{kind} replacement")
        few.plot(small["batch_sizes"], small[kind], "o", color=color, markersize=6)
    few.plot([], [], "o", color=MUTED, label="all batches enumerated")
    few.set_ylim(bottom=0)
    dress(few, f"{counted(small['few'], 'example')}, exact", "batch size B", "variance of the gradient")
    legend(few)
    _draw_many(many, numbers)
    _draw_table(table, numbers["table"])
    return figure


def _draw_many(axes: Axes, numbers: Mapping[str, Any]) -> None:
    for (name, stage), shades in zip(numbers["drawn"].items(), (PALETTE[:2], PALETTE[2:4]), strict=True):
        fine = [stage["batch_sizes"][-1] ** (i / 200) for i in range(200)]
        for kind, color in zip(("with", "without"), shades, strict=True):
            population = None if kind == "with" else numbers["examples"]
            line = [batch_variance(stage["sigma"], size, population) for size in fine]
            axes.plot(fine, line, color=color, linewidth=1.2)
            axes.plot(stage["batch_sizes"], stage[kind], "o", color=color, markersize=4, label=f"{kind}, {name}")
        axes.axhline(stage["gradient"], color=shades[0], linewidth=0.8, linestyle=":")
    highest = max(stage["gradient"] for stage in numbers["drawn"].values())
    axes.annotate("squared length of the gradient", (1, 1.1 * highest), fontsize=8, color=MUTED)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    lowest = min(stage["expected_with"][-1] for stage in numbers["drawn"].values())
    axes.set_ylim(bottom=lowest / 20)
    dress(axes, f"{counted(numbers['examples'], 'digit')}, drawn", "batch size B", "variance of the gradient")
    axes.legend(fontsize=7.5, labelcolor=INK, edgecolor="none", framealpha=0.75, loc="lower left")


def _draw_table(axes: Axes, rows: list[dict[str, Any]]) -> None:
    dress(axes, "Factors of a change: measured (expected)", grid=False)
    axes.set_axis_off()
    heads = ["", "mean loss\nlength", "mean loss\nvariance", "sum loss\nlength", "sum loss\nvariance"]
    columns = [0.0, 0.46, 0.63, 0.80, 0.97]
    for x, head in zip(columns, heads, strict=True):
        axes.text(x, 0.86, head, fontsize=8.5, fontweight="bold", color=INK, ha="left" if x == 0 else "center")
    for line, name in enumerate(CHANGES):
        y = 0.7 - 0.22 * line
        axes.axhline(y + 0.1, color=LINE, linewidth=0.8)
        axes.text(0, y, name.replace(", ", ",\n"), fontsize=9, color=INK, va="center")
        cells = [row for row in rows if row["change"] == name]
        for pair, row in zip((columns[1:3], columns[3:5]), cells, strict=True):
            for x, key, expected in zip(pair, ("length", "variance"), row["expected"], strict=True):
                axes.text(x, y, f"{row[key]:.2f} x\n({expected:g})", fontsize=9, color=INK, ha="center", va="center")
    axes.set_xlim(0, 1.05)
    axes.set_ylim(0, 1)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """How far the variances are from the formula, and the noise scale before and after training."""
    small = numbers["enumerated"]
    gap = max(
        abs(found - expected) / small["sigma"]
        for kind in ("with", "without")
        for found, expected in zip(small[kind], small[f"expected_{kind}"], strict=True)
    )
    off = max(
        abs(row[key] / row["expected"][i] - 1)
        for row in numbers["table"]
        for i, key in enumerate(("length", "variance"))
    )
    scales = [f"{stage['noise_scale']:.3g} {name}" for name, stage in numbers["drawn"].items()]
    drawn = max(
        abs(found / expected - 1)
        for stage in numbers["drawn"].values()
        for found, expected in zip(stage["with"], stage["expected_with"], strict=True)
    )
    lines = [
        f"A batch of B examples has 1/B of the noise, up to {drawn:.1%} for drawn batches; noise and gradient are as "
        f"large at a batch size of {' and '.join(scales)}.",
        f"Over all batches of {counted(small['few'], 'example')} the variance is sigma²/B, and without replacement "
        f"(N-B)/(N-1) of that, up to {gap:.1g}.",
        f"Step lengths and variances change by the factors of the table, up to {off:.1%}.",
    ]
    return tuple(lines)

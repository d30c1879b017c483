"""Double descent: the test error of overparameterized models, which peaks at the interpolation threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from numpy.typing import NDArray

from deepcanon.core import Labeled, UsageError
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, interval

Floats = NDArray[np.float64]

NEW, OWN, PENALIZED, NORM = PALETTE[1], PALETTE[2], PALETTE[0], PALETTE[3]
RIDGE = 1e-3
"""The ridge penalty of the squared weights, per example, that is compared with none."""
WAVES = (6, 15, 500)
"""The numbers of random waves that are fitted to the points of the first row: fewer than points, as many, many more."""
POINTS, INPUTS, FITS = 15, np.linspace(-1, 1, 200), 10


def expected_risk(parameters: int, examples: int, features: int, noise: float, signal: float = 1.0) -> float:
    r"""The expected squared error of the minimum-norm least-squares fit to a random choice of Gaussian features.

    .. math:: y = x^\top \beta + \varepsilon, \quad x \sim N(0, I_D), \qquad
        E = \begin{cases}
            r_p \bigl(1 + \frac{p}{n - p - 1}\bigr) & p \le n - 2 \\
            \infty & n - 1 \le p \le n + 1 \\
            s_p \bigl(1 - \frac np\bigr) + r_p \bigl(1 + \frac{n}{p - n - 1}\bigr) & p \ge n + 2
        \end{cases} \qquad (1)

    Here p of D features are used. They explain :math:`s_p = \lVert \beta \rVert^2 p / D` of the variance, and
    :math:`r_p = \lVert \beta \rVert^2 - s_p + \sigma^2` is left; ``signal`` is :math:`\lVert \beta \rVert`.

    References:
        | Two models of double descent for weak features (Belkin, Hsu and Xu, 2020), theorem 1,
          https://arxiv.org/abs/1903.07571

    >>> expected_risk(40, 40, 100, 0.2), round(expected_risk(100, 40, 100, 0.2), 4)
    (inf, 0.6671)
    """
    used = signal**2 * parameters / features
    rest = signal**2 - used + noise**2
    if abs(parameters - examples) <= 1:
        return math.inf
    if parameters < examples:
        return rest * (1 + parameters / (examples - parameters - 1))  # eq. (1)
    return used * (1 - examples / parameters) + rest * (1 + examples / (parameters - examples - 1))


def measured_risks(
    parameters: int, examples: int, features: int, noise: float, draws: int, random: np.random.Generator
) -> Floats:
    """The error of each of so many fits as :func:`expected_risk` has them, (draws,).

    Features are exchangeable, so the first ones are used and the weights point in any direction. For a given fit the
    test error is known in closed form: no test data are drawn.
    """
    truth = random.standard_normal((draws, features))
    truth /= np.linalg.norm(truth, axis=1, keepdims=True)
    x = random.standard_normal((draws, examples, features))
    y = np.einsum("rnd,rd->rn", x, truth) + noise * random.standard_normal((draws, examples))
    found = np.einsum("rpn,rn->rp", np.linalg.pinv(x[..., :parameters]), y)
    missed: Floats = np.sum((truth[:, :parameters] - found) ** 2, 1) + np.sum(truth[:, parameters:] ** 2, 1) + noise**2
    return missed


def shortest_fit(inputs: Floats, targets: Floats, ridge: float = 0.0) -> Floats:
    """The weights of least squares, (features, targets): those of minimum norm, or those with a ridge penalty.

    >>> shortest_fit(np.array([[1.0, 1.0]]), np.array([[2.0]]))
    array([[1.],
           [1.]])
    """
    left, sizes, right = np.linalg.svd(inputs, full_matrices=False)
    if ridge:
        gain = sizes / (sizes**2 + ridge * len(inputs))
    else:
        seen = sizes > sizes.max() * max(inputs.shape) * np.finfo(inputs.dtype).eps
        gain = np.where(seen, 1 / np.where(seen, sizes, 1), 0)
    weights: Floats = right.T @ (gain[:, None] * (left.T @ targets))
    return weights


def double_descent(
    *,
    data: str = "digits",
    examples: int = 40,
    features: int = 100,
    noise: float = 0.2,
    draws: int = 400,
    training: int = 150,
    wrong: float = 0.2,
    counts: tuple[int, ...] = (5, 10, 20, 40, 70, 100, 120, 135, 145, 150, 155, 165, 185, 220, 300, 500, 1000, 2000),
    seeds: int = 5,
    seed: int = 0,
) -> Finding:
    r"""Double descent: the test error peaks where there are as many parameters as examples, and falls again beyond.

    Minimum-norm least squares with p of D Gaussian features is measured and compared with its exact expectation
    (:func:`expected_risk`). The same fit is then made to real images, some with wrong labels, through random features,
    which are a network with a first layer that is not trained:

    .. math:: \phi_j(x) = \cos(w_j^\top x + b_j), \qquad w_j \sim N(0, I / d), \; b_j \sim U(0, 2 \pi)

    The training data are interpolated from as many features as there are examples. There the norm of the weights is
    largest, since only one fit is possible; with more features there are many, and that of minimum norm is smooth. A
    ridge penalty removes the peak.

    References:
        | Reconciling modern machine-learning practice and the classical bias-variance trade-off (Belkin et al., 2019),
          https://arxiv.org/abs/1812.11118
        | Two models of double descent for weak features (Belkin, Hsu and Xu, 2020), https://arxiv.org/abs/1903.07571

    Arguments:
        data: The data set of real images, or of other examples with classes.
        examples: The examples of the Gaussian fits.
        features: The features D of the Gaussian fits.
        noise: The standard deviation of the noise of the Gaussian fits.
        draws: How many Gaussian fits are measured for each number of parameters.
        training: How many training examples of the data set are taken.
        wrong: The share of their labels that is drawn anew.
        counts: The numbers of random features.
        seeds: How often random features and wrong labels are drawn.
        seed: The seed of all random numbers.
    """
    if features < examples + 2:
        raise UsageError(
            f"to go beyond {counted(examples, 'example')}, features must be {examples + 2} or more (got {features})"
        )
    if draws < 2 or seeds < 2:
        raise UsageError(f"a mean with its spread needs at least 2 draws and 2 seeds (got {draws} and {seeds})")
    loaded = load_data(data)
    classes = loaded.sizes.get("classes")
    if classes is None:
        raise UsageError(f"this study needs examples with classes; {data} has none")
    random = np.random.default_rng(seed)
    rows = np.arange(training) * len(loaded.train) // training
    own, new = loaded.train.select(torch.from_numpy(rows)), loaded.split("valid" if loaded.test is None else "test")
    settings = (
        f"Gaussian: {counted(examples, 'example')}, {counted(features, 'feature')}, noise {noise:g}, "
        f"{counted(draws, 'draw')}. Random features: {counted(training, 'example')} of {data}, {wrong:.0%} ({wrong:g}) "
        f"of their labels drawn anew, {counts[0]} to {counted(counts[-1], 'feature')}, ridge penalty {RIDGE:g} per "
        f"example where there is one; {counted(seeds, 'seed')}, {CERTAIN}"
    )
    numbers = {
        "settings": settings,
        "data": data, "examples": examples, "features": features, "noise": noise, "draws": draws,
        "training": training, "waves": _waves(random),
        "gaussian": [_gaussian(p, examples, features, noise, draws, random) for p in _sizes(examples, features)],
        "random_features": [_random_features(count, own, new, classes, wrong, seeds, random) for count in counts],
    }  # fmt: skip
    return concluded(numbers, sentences, draw)


def _sizes(examples: int, features: int) -> list[int]:
    """Some forty numbers of parameters, among them those around the number of examples."""
    even = range(1, features + 1, math.ceil(features / 34))
    near = range(max(1, examples - 3), min(features, examples + 3) + 1)
    return sorted({*even, *near, features})


def _gaussian(
    parameters: int, examples: int, features: int, noise: float, draws: int, random: np.random.Generator
) -> dict[str, float]:
    risks = measured_risks(parameters, examples, features, noise, draws, random)
    return {
        "parameters": parameters,
        "expected": expected_risk(parameters, examples, features, noise),
        "mean": float(risks.mean()),
        "error": float(risks.std(ddof=1) / math.sqrt(draws)),
    }


def _random_features(
    count: int, own: Labeled, new: Labeled, classes: int, wrong: float, seeds: int, random: np.random.Generator
) -> dict[str, Any]:
    x, there = (part.x.flatten(1).double().numpy() for part in (own, new))
    mean, std = x.mean(0), x.std()
    draws = []
    for _ in range(seeds):
        labels = own.y.numpy().copy()
        anew = random.random(len(labels)) < wrong
        labels[anew] = random.integers(classes, size=int(anew.sum()))
        weights, bias = random.standard_normal((x.shape[1], count)), random.uniform(0, 2 * np.pi, count)
        seen, unseen = (
            np.cos((part - mean) / std @ weights / math.sqrt(x.shape[1]) + bias) / math.sqrt(count)
            for part in (x, there)
        )
        targets = np.eye(classes)[labels]
        fit, penalized = shortest_fit(seen, targets), shortest_fit(seen, targets, RIDGE)
        draws.append(
            {
                "test": np.mean((unseen @ fit).argmax(1) != new.y.numpy()),
                "train": np.mean((seen @ fit).argmax(1) != labels),
                "left": np.mean(np.sum((seen @ fit - targets) ** 2, 1)),
                "penalized": np.mean((unseen @ penalized).argmax(1) != new.y.numpy()),
                "length": np.linalg.norm(fit),
            }
        )
    means = {name: float(np.mean([each[name] for each in draws])) for name in draws[0]}
    return {"features": count, **means, "tests": [float(each["test"]) for each in draws]}


def _waves(random: np.random.Generator) -> dict[str, Any]:
    """Minimum-norm fits of random waves to noisy points on a line, several for each number of waves."""
    x = np.linspace(-1, 1, POINTS)
    y = np.sin(3 * x) + 0.15 * random.standard_normal(POINTS)
    fits: dict[str, list[list[float]]] = {}
    for count in WAVES:
        fits[str(count)] = []
        for _ in range(FITS):
            # Some waves are far shorter than most, without which many smooth waves could hardly follow noise at all.
            pace, start = 4 * random.standard_t(3, count), random.uniform(0, 2 * np.pi, count)
            seen, everywhere = (np.cos(np.outer(part, pace) + start) / math.sqrt(count) for part in (x, INPUTS))
            fits[str(count)].append((everywhere @ shortest_fit(seen, y[:, None]))[:, 0].tolist())
    return {"x": x.tolist(), "y": y.tolist(), "inputs": INPUTS.tolist(), "fits": fits}


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Whether the test error has a peak beyond its noise, where it is, and what it has to do with."""
    rows, training = numbers["random_features"], numbers["training"]
    peak = max(rows, key=lambda row: row["test"])
    before = min((row for row in rows if row["features"] < peak["features"]), key=lambda row: row["test"], default=peak)
    finite = [row for row in numbers["gaussian"] if row["expected"] is not None]
    off = float(np.median([abs(row["mean"] / row["expected"] - 1) for row in finite]))
    rises, falls = (_told_apart(peak["tests"], other["tests"]) for other in (before, rows[-1]))
    where = counted(peak["features"], "random feature")
    if rises and falls:
        verdict = f"peaks at {where}"
    elif falls:
        verdict = f"is largest at {where}, with no rise before that is beyond the noise,"
    else:
        verdict = f"has no peak beyond the noise; it is largest at {where}"
    return (
        f"The test error on {numbers['data']} {verdict}, with {counted(training, 'training example')}: "
        f"{_wrong(before)} at {before['features']}, {_wrong(peak)} at {peak['features']}, {_wrong(rows[-1])} at "
        f"{rows[-1]['features']}.",
        f"Gaussian features: half of the measured errors are within {off:.1%} of the exact expectation, which is "
        f"infinite from {numbers['examples'] - 1} to {numbers['examples'] + 1} parameters for "
        f"{counted(numbers['examples'], 'example')}.",
        f"At {peak['features']} the norm of the weights is {peak['length'] / rows[-1]['length']:.0f} times that at the "
        f"end, and a small ridge penalty reduces the test error there to {peak['penalized']:.1%}.",
    )


def _told_apart(higher: list[float], lower: list[float]) -> bool:
    """Whether the difference of two means is beyond the noise of both."""
    (first, wide), (second, narrow) = interval(higher), interval(lower)
    return first - second > math.hypot(wide, narrow)


def _wrong(row: Mapping[str, Any]) -> str:
    return f"{row['test']:.1%} ± {interval(row['tests'])[1]:.1%}"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Fits on a line, Gaussian features, and random features with their errors and norms."""
    figure = new_figure(11, 7.4)
    grid = figure.add_gridspec(2, 6, height_ratios=(1, 1.35))
    waves = numbers["waves"]
    for column, (count, fits) in enumerate(waves["fits"].items()):
        axes = figure.add_subplot(grid[0, 2 * column : 2 * column + 2])
        axes.plot(INPUTS, np.sin(3 * INPUTS), color=INK, linewidth=1.2, linestyle="--", label="the truth")
        axes.plot(INPUTS, np.transpose(fits), color=NEW, linewidth=1, alpha=0.6)
        axes.plot([], [], color=NEW, linewidth=1, label=f"{counted(len(fits), 'minimum-norm fit')}")
        axes.plot(waves["x"], waves["y"], "o", color=MUTED, markersize=3.5, label="examples")
        axes.set_ylim(-3, 3)
        axes.set_xticks([-1, -0.5, 0, 0.5, 1])
        dress(
            axes, f"{counted(count, 'random wave')}, {counted(len(waves['x']), 'example')}", "x", "" if column else "y"
        )
        if column == 0:
            legend(axes).set_loc("upper left")
    _gaussian_panel(figure.add_subplot(grid[1, 0:2]), numbers)
    rows, training = numbers["random_features"], numbers["training"]
    counts = [row["features"] for row in rows]
    errors, lengths = figure.add_subplot(grid[1, 2:4]), figure.add_subplot(grid[1, 4:6])
    for name, words, color in (
        ("test", "test data", NEW),
        ("penalized", "test data, with a small ridge penalty", PENALIZED),
        ("train", "training data", OWN),
    ):
        errors.plot(counts, [row[name] for row in rows], "o-", color=color, markersize=3, linewidth=1.4, label=words)
    widths = [interval(row["tests"])[1] for row in rows]
    errors.errorbar(counts, [row["test"] for row in rows], widths, fmt="none", color=NEW, linewidth=0.8)
    dress(errors, f"Random features on {numbers['data']}", "random features", "wrong predictions")
    errors.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    errors.set_ylim(-0.12, 1.2)
    errors.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
    legend(errors).set_loc("upper left")
    lengths.plot(counts, [row["length"] for row in rows], "o-", color=NORM, markersize=3, linewidth=1.4)
    lengths.set_yscale("log")
    dress(lengths, "Why: only one fit is possible there", "random features", "norm of the fitted weights")
    for axes in (errors, lengths):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        _threshold(axes, training)
    return figure


def _gaussian_panel(axes: Axes, numbers: Mapping[str, Any]) -> None:
    examples, features = numbers["examples"], numbers["features"]
    curve = [(p, expected_risk(p, examples, features, numbers["noise"])) for p in range(features + 1)]
    for side in (
        [point for point in curve if point[0] < examples - 1],
        [point for point in curve if point[0] > examples + 1],
    ):
        label = None if side[0][0] else "exact expectation"
        axes.plot(*zip(*side, strict=True), color=INK, linewidth=1.4, label=label)
    rows = [row for row in numbers["gaussian"] if row["expected"] is not None]
    axes.errorbar(
        [row["parameters"] for row in rows], [row["mean"] for row in rows], [2 * row["error"] for row in rows],
        fmt="o", color=NEW, markersize=3, linewidth=0.8, label=f"mean of {counted(numbers['draws'], 'fit')}",
    )  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(0.3, 100)
    dress(axes, "Gaussian features, minimum-norm least squares", "parameters", "squared error on test data")
    legend(axes).set_loc("upper right")
    _threshold(axes, examples)


def _threshold(axes: Axes, examples: int) -> None:
    axes.axvline(examples, color=MUTED, linewidth=0.9, linestyle=":")
    axes.annotate(
        counted(examples, "example"), (examples, 0.02), xycoords=("data", "axes fraction"), xytext=(3, 0),
        textcoords="offset points", fontsize=7.5, color=MUTED,
    )  # fmt: skip

"""The bias-variance decomposition of the expected error of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.polynomial import legendre
from numpy.typing import NDArray

from deepcanon.core import Model, UsageError
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.side_by_side import fit_side_by_side
from deepcanon.train.randomness import kept, seed_torch

Floats = NDArray[np.float64]

INPUTS = np.linspace(-1, 1, 201)
"""The inputs at which all fits are evaluated; the mean over them stands for the expectation over x."""
RATE = 0.03
"""The learning rate of Adam, with which the networks are trained on all examples at once."""
SHOWN = 30
BIAS, VARIANCE, NOISE, TOTAL, TRAINED = PALETTE[0], PALETTE[1], MUTED, INK, PALETTE[2]


@dataclass(frozen=True)
class Parts:
    """The bias-variance decomposition of the expected test error of a fit, and its training error."""

    bias: float
    variance: float
    noise: float
    train: float

    @property
    def total(self) -> float:
        return self.bias + self.variance + self.noise

    def numbers(self) -> dict[str, float]:
        return {**vars(self), "total": self.total}


def closed_form(smoother: Floats, truth: Floats, at: Floats, truth_there: Floats, noise: float) -> Parts:
    r"""The decomposition for a linear smoother, a fit that is linear in its targets: :math:`S y` at new inputs.

    .. math:: \mathrm{Bias}^2 = \overline{(f_* - S f)^2}, \qquad
              \mathrm{Variance} = \sigma^2\, \overline{(S S^\top)_{ii}} \qquad (1)

    ``smoother`` is the matrix at the examples themselves, ``at`` is S, the one at the new inputs, and ``truth`` and
    ``truth_there`` are f at both; the bar is the mean over inputs.
    """
    left = np.eye(len(truth)) - smoother
    return Parts(
        bias=float(np.mean((truth_there - at @ truth) ** 2)),  # eq. (1)
        variance=float(noise**2 * np.mean(np.sum(at**2, 1))),
        noise=noise**2,
        train=float(np.mean((left @ truth) ** 2) + noise**2 * np.mean(np.sum(left**2, 1))),
    )


def monte_carlo(predicted: Floats, truth: Floats, residuals: Floats, new: Floats) -> tuple[Parts, float]:
    r"""The decomposition from the predictions of R fits at T inputs, (R, T), and the mean error at new targets (R, T).

    The square of a mean of R fits is too large by the variance over R, which is taken off, so that no part is biased.
    """
    variance = predicted.var(0, ddof=1)
    bias = (predicted.mean(0) - truth) ** 2 - variance / len(predicted)
    noise = float(np.mean((new - truth) ** 2))
    measured = Parts(float(bias.mean()), float(variance.mean()), noise, float(np.mean(residuals**2)))
    return measured, float(np.mean((new - predicted) ** 2))


def polynomial(x: Floats, at: Floats, degree: int, ridge: float = 0.0) -> tuple[Floats, Floats]:
    """The smoother matrices of least squares, which map targets at x to the predictions at x and ``at``.

    The polynomials are Legendre's, which span the same functions as powers but are nearly orthogonal; ``ridge`` times
    the number of examples is the weight of their squared coefficients.

    >>> polynomial(np.array([-1.0, 1.0]), np.array([0.0]), 1)[1]
    array([[0.5, 0.5]])
    """
    basis = legendre.legvander(x, degree)
    penalty = np.sqrt(ridge * len(x)) * np.eye(degree + 1)
    solve = np.linalg.pinv(np.vstack([basis, penalty]) if ridge else basis)[:, : len(x)]
    return basis @ solve, legendre.legvander(at, degree) @ solve


def bias_variance(
    mlp: type[Model[Any]],
    *,
    examples: int = 25,
    noise: float = 0.3,
    datasets: int = 300,
    degrees: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
    widths: tuple[int, ...] = (1, 2, 3, 4, 8, 16, 32),
    networks: int = 40,
    steps: int = 300,
    seed: int = 0,
) -> Finding:
    r"""The bias-variance decomposition of the expected error, measured over many data sets and in closed form.

    .. math:: E_D\, E_{x, y} (y - f_D(x))^2 = E_x \bigl[(\bar f(x) - f(x))^2 + \mathrm{Var}_D f_D(x)\bigr] + \sigma^2

    The truth is :math:`f(x) = \sin(\tfrac{3 \pi}{2} x + \tfrac12)` at evenly spaced inputs; each data set draws the
    noise of the targets anew. Polynomials of growing degree, and one of high degree with a weakening ridge penalty, are
    fitted by least squares, for which every part is known exactly. Networks with one hidden layer have no closed form;
    they are measured only.

    References:
        | Neural networks and the bias/variance dilemma (Geman et al., 1992),
          https://doi.org/10.1162/neco.1992.4.1.1

    Arguments:
        mlp: The network.
        examples: The number of examples of a data set.
        noise: The standard deviation of the noise of the targets.
        datasets: How many data sets the polynomials are fitted to.
        degrees: The degrees of the polynomials; the last one is also fitted with ridge penalties.
        widths: The widths of the networks.
        networks: How many data sets the networks are fitted to.
        steps: The steps by which a network is trained.
        seed: The seed of all random numbers.
    """
    if max(degrees) >= examples:
        raise UsageError(f"a polynomial of degree {max(degrees)} needs more than {counted(max(degrees), 'example')}")
    if min(datasets, networks) < 2:
        raise UsageError(f"a variance needs at least 2 data sets (got {datasets}, and {networks} for networks)")
    random = np.random.default_rng(seed)
    x = np.linspace(-1, 1, examples)
    y = _truth(x) + noise * random.standard_normal((datasets, examples))
    new = _truth(INPUTS) + noise * random.standard_normal((datasets, len(INPUTS)))
    ridges = tuple(float(ridge) for ridge in np.geomspace(10, 1e-5, 13))
    fits: dict[str, Floats] = {}

    def measured(name: str, settings: Sequence[float], smoothers: list[tuple[Floats, Floats]]) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        for setting, (own, there) in zip(settings, smoothers, strict=True):
            fits[f"{name} {setting}"] = y @ there.T
            exact = closed_form(own, _truth(x), there, _truth(INPUTS), noise)
            parts, error = monte_carlo(y @ there.T, _truth(INPUTS), y - y @ own.T, new)
            rows.append({"setting": setting, "exact": exact.numbers(), "measured": parts.numbers(), "error": error})
        return {"rows": rows, "best": min(rows, key=lambda row: row["exact"]["total"])["setting"]}

    by_degree = measured("degree", degrees, [polynomial(x, INPUTS, degree) for degree in degrees])
    by_ridge = measured("ridge", ridges, [polynomial(x, INPUTS, max(degrees), ridge) for ridge in ridges])
    rows: list[dict[str, Any]] = []
    for width in widths:
        predicted, residuals = _networks(mlp, width, x, y[:networks], steps, seed)
        parts, error = monte_carlo(predicted, _truth(INPUTS), residuals, new[:networks])
        rows.append({"setting": width, "measured": parts.numbers(), "error": error})
    by_width = {"rows": rows, "best": min(rows, key=lambda row: row["measured"]["total"])["setting"]}

    settings = (
        f"{counted(examples, 'example')} with noise of standard deviation {noise:g}; {datasets} data sets for "
        f"polynomials of degree {degrees[0]} to {degrees[-1]}, {networks} for tanh networks of {widths[0]} to "
        f"{widths[-1]} units, each trained by {counted(steps, 'step')} of Adam at rate {RATE:g} on all examples"
    )
    shown = {f"degree {degree}": fits[f"degree {degree}"][:SHOWN] for degree in _telling(degrees, by_degree["best"])}
    numbers = {
        "settings": settings, "datasets": datasets, "x": x.tolist(), "y": y[0].tolist(),
        "degree": by_degree, "ridge": by_ridge, "width": by_width,
        "fits": {name: each.tolist() for name, each in shown.items()},
    }  # fmt: skip
    return concluded(numbers, sentences, draw)


def _truth(x: Floats) -> Floats:
    wave: Floats = np.sin(1.5 * np.pi * x + 0.5)
    return wave


def _networks(mlp: type[Model[Any]], width: int, x: Floats, y: Floats, steps: int, seed: int) -> tuple[Floats, Floats]:
    """The predictions of networks of this width, and their residuals at their examples: one for each row of y."""
    with kept():
        seed_torch(seed)
        models = [mlp(features=1, targets=1, hidden=(width,), activation="tanh") for _ in y]
    inputs, new = (torch.from_numpy(part).float().unsqueeze(1) for part in (x, INPUTS))
    targets = torch.from_numpy(y).float().unsqueeze(-1)
    outputs = fit_side_by_side(models, inputs, targets, steps=steps, rates=[RATE] * len(models)).outputs
    return outputs(new).squeeze(-1).double().numpy(), (targets - outputs(inputs)).squeeze(-1).double().numpy()


def _telling(degrees: Sequence[int], best: int) -> list[int]:
    """A degree that is too low, the best one and the highest."""
    return sorted({degrees[min(1, len(degrees) - 1)], best, degrees[-1]})


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The best polynomial, what is wrong with the others, and the networks."""
    rows = numbers["degree"]["rows"]
    best = next(row for row in rows if row["setting"] == numbers["degree"]["best"])
    parts, first, last = best["exact"], rows[0], rows[-1]
    gap = max(abs(row["measured"]["variance"] / row["exact"]["variance"] - 1) for row in rows)
    narrow, wide = numbers["width"]["rows"][0], numbers["width"]["rows"][-1]
    ends = [f"degree {row['setting']} has {_excess(row['exact'], parts)}" for row in (first, last) if row is not best]
    return (
        f"The best polynomial has degree {best['setting']}; {' and '.join(ends)}.",
        f"Of the expected error {parts['total']:.3f} of degree {best['setting']}, {parts['bias']:.3f} is bias, "
        f"{parts['variance']:.3f} variance and {parts['noise']:.3f} noise.",
        f"Over {numbers['datasets']} data sets the measured variances are within {gap:.0%} of the closed form.",
        f"Networks, measured only: width {narrow['setting']} has the error {narrow['error']:.3f}, width "
        f"{wide['setting']} {wide['error']:.3f}, of which {wide['measured']['variance']:.3f} is variance.",
    )


def _excess(parts: Mapping[str, float], best: Mapping[str, float]) -> str:
    """What makes a fit worse than the best one, in words: the part of the error that grows most."""
    more = {name: parts[name] - best[name] for name in ("bias", "variance")}
    name = max(more, key=lambda each: more[each])
    return f"{more[name]:.3f} more {name} ({'underfitting' if name == 'bias' else 'overfitting'})"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Some of the fits, and the parts of the error by degree, ridge penalty and width."""
    shown = {name: np.asarray(each) for name, each in numbers["fits"].items()}
    x, y = np.asarray(numbers["x"]), np.asarray(numbers["y"])
    figure = new_figure(11, 7.2)
    grid = figure.add_gridspec(2, 6, height_ratios=(1, 1.35))
    step = 6 // len(shown)
    for column, (name, fits) in enumerate(shown.items()):
        axes = figure.add_subplot(grid[0, column * step : (column + 1) * step])
        _fits(axes, fits, x, y)
        dress(axes, name.capitalize(), "x", "" if column else "y")
        if column == 0:
            legend(axes).set_loc("upper right")
    strongest = numbers["degree"]["rows"][-1]["setting"]
    for column, (kind, words, label) in enumerate(
        (
            ("degree", "Polynomials by least squares", "degree"),
            ("ridge", f"Degree {strongest} with a ridge penalty", "penalty of the squared coefficients"),
            ("width", "Networks with one hidden layer", "hidden units"),
        )
    ):
        axes = figure.add_subplot(grid[1, 2 * column : 2 * column + 2])
        _parts(axes, numbers[kind]["rows"])
        dress(axes, words, label, "" if column else "squared error")
        axes.set_yscale("log")
        axes.set_ylim(1e-3, 2)
        if kind == "ridge":
            axes.set_xscale("log")
            axes.invert_xaxis()
        if kind == "width":
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if column == 0:
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(
                handles, labels, loc="outside upper right", ncols=6, fontsize=8, labelcolor=INK, frameon=False
            )
    return figure


def _fits(axes: Axes, fits: Floats, x: Floats, y: Floats) -> None:
    axes.plot(INPUTS, fits.T, color=VARIANCE, alpha=0.3, linewidth=0.7)
    axes.plot([], [], color=VARIANCE, linewidth=0.7, label=f"{counted(len(fits), 'fit')}, each to its own data")
    axes.plot(INPUTS, fits.mean(0), color=BIAS, linewidth=1.8, label="their mean")
    axes.plot(INPUTS, _truth(INPUTS), color=INK, linewidth=1.2, linestyle="--", label="the truth")
    axes.plot(x, y, "o", color=MUTED, markersize=2.5, label="one of the data sets")
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.set_ylim(-2, 2.6)


def _parts(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Lines for the closed form, dots for what was measured; without a closed form, dots with thin lines."""
    settings = [row["setting"] for row in rows]
    for part, words, color in (
        ("bias", "bias²", BIAS),
        ("variance", "variance", VARIANCE),
        ("noise", "noise", NOISE),
        ("total", "all three: test error", TOTAL),
        ("train", "training error", TRAINED),
    ):
        dots = [row["error"] if part == "total" else row["measured"][part] for row in rows]
        if "exact" in rows[0]:
            axes.plot(settings, [row["exact"][part] for row in rows], color=color, linewidth=1.5, label=words)
            axes.plot(
                settings, dots, "o", color=color, markersize=3.5, label="dots: measured" if part == "train" else None
            )
        else:
            axes.plot(settings, dots, "o-", color=color, markersize=3.5, linewidth=0.6)

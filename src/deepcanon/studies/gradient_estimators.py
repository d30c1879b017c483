"""Gradient estimators: the score function, with a control variate, and reparameterization."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.distributions import Beta, Gamma

from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.train.randomness import kept, seed_torch

NAMES = ("score function", "with a control variate", "reparameterization")
MEANS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
COUNTS = (1, 2, 4, 8, 16, 32, 64)
AT = 1.0
"""The mean at which the variance is measured by the number of samples."""


def gradient_estimators(*, draws: int = 200_000, seed: int = 0) -> Finding:
    r"""The variance of gradients of an expectation: by the score function, a control variate, reparameterization.

    All estimate :math:`\frac{d}{d\varphi} E[z^2] = 2 \varphi` for :math:`z \sim N(\varphi, 1)`, without bias.

    .. math:: g_s = z^2 (z - \varphi), \quad g_c = (z^2 - b)(z - \varphi), \quad
              g_r = 2 z \text{ with } z = \varphi + \varepsilon

    .. math:: \mathrm{Var}(g_s) = \varphi^4 + 14 \varphi^2 + 15, \quad \mathrm{Var}(g_c) = 8 \varphi^2 + 6
              \text{ with } b = \varphi^2 + 3, \quad \mathrm{Var}(g_r) = 4

    The constant b that lowers the variance most is :math:`E[z^2 s^2] / E[s^2]` with the score
    :math:`s = z - \varphi`. The mean of L samples has 1/L of the variance. Where z is not shifted and scaled noise, it
    is reparameterized by its inverse distribution function (the exponential distribution), or implicitly (Gamma, Beta):

    .. math:: z = F^{-1}_\theta(u), \qquad \frac{dz}{d\theta} = -\frac{dF_\theta(z) / d\theta}{p_\theta(z)}

    References:
        | Auto-Encoding Variational Bayes (Kingma and Welling, 2014), https://arxiv.org/abs/1312.6114
        | Monte Carlo Gradient Estimation in Machine Learning (Mohamed et al., 2020), https://arxiv.org/abs/1906.10652
        | Implicit Reparameterization Gradients (Figurnov et al., 2018), https://arxiv.org/abs/1805.08498

    Arguments:
        draws: How many gradients are drawn of each.
        seed: The seed of the draws.
    """
    at_least(1000, draws=draws)
    with kept():
        seed_torch(seed)
        numbers = {
            "settings": f"{counted(draws, 'gradient')} each, double precision; control variate: the best constant",
            "draws": draws,
            "means": list(MEANS),
            "measured": {name: [measured(name, mean, draws) for mean in MEANS] for name in NAMES},
            "exact": {name: [variance(name, mean) for mean in MEANS] for name in NAMES},
            "counts": list(COUNTS),
            "by_count": {name: [by_count(name, count, draws) for count in COUNTS] for name in NAMES},
            "at": {name: variance(name, AT) for name in NAMES},
            "reparameterized": [reparameterized(*case, draws) for case in CASES],
        }
    return concluded(numbers, sentences, draw)


def gradients(name: str, mean: float, draws: int) -> Tensor:
    """Single-sample estimates of the derivative of E[z²] by the mean, (draws,)."""
    noise = torch.randn(draws, dtype=torch.float64)
    z = mean + noise
    if name == "reparameterization":
        return 2 * z
    baseline = mean**2 + 3 if name == "with a control variate" else 0.0
    return (z.square() - baseline) * noise


def variance(name: str, mean: float) -> float:
    """The exact variance of a single-sample estimate.

    >>> [variance(name, 2.0) for name in NAMES]
    [87.0, 38.0, 4.0]
    """
    forms = {
        "score function": mean**4 + 14 * mean**2 + 15,
        "with a control variate": 8 * mean**2 + 6,
        "reparameterization": 4.0,
    }
    return forms[name]


def measured(name: str, mean: float, draws: int) -> dict[str, float]:
    """The variance of drawn estimates, and by how many standard errors their mean misses the derivative."""
    found = gradients(name, mean, draws)
    spread = float(found.var())
    return {"variance": spread, "off": float(found.mean() - 2 * mean) / math.sqrt(spread / draws)}


def by_count(name: str, count: int, draws: int) -> float:
    """The variance of the mean of so many samples."""
    return float(gradients(name, AT, draws // count * count).reshape(-1, count).mean(1).var())


def _exponential(rate: Tensor, draws: int) -> Tensor:
    uniform = torch.rand(draws, dtype=torch.float64)
    return -torch.log1p(-uniform) / rate  # the inverse distribution function


def _gamma(shape: Tensor, draws: int) -> Tensor:
    return Gamma(shape, torch.ones_like(shape)).rsample((draws,))


def _beta(first: Tensor, draws: int) -> Tensor:
    return Beta(first, torch.tensor(2.0, dtype=torch.float64)).rsample((draws,))


Draw = Callable[[Tensor, int], Tensor]
CASES: tuple[tuple[str, Draw, float, int, float], ...] = (
    ("Exponential(1.5), E z, inverse", _exponential, 1.5, 1, -1 / 1.5**2),
    ("Gamma(0.7), E z, implicit", _gamma, 0.7, 1, 1.0),
    ("Gamma(0.7), E z², implicit", _gamma, 0.7, 2, 2 * 0.7 + 1),
    ("Beta(3, 2), E z, implicit", _beta, 3.0, 1, 2 / 5**2),
)
"""Distributions with their parameter, the power of z in the expectation, and its exact derivative."""


def reparameterized(name: str, sample: Draw, parameter: float, power: int, exact: float, draws: int) -> dict[str, Any]:
    """The derivative of E[z^power] by the parameter through drawn samples, with its standard error."""
    theta = torch.full((draws,), parameter, dtype=torch.float64, requires_grad=True)
    z = sample(theta, 1).squeeze(0) if sample is not _exponential else _exponential(theta, draws)
    (slopes,) = torch.autograd.grad((z**power).sum(), theta)
    return {
        "name": name,
        "exact": exact,
        "measured": float(slopes.mean()),
        "error": float(slopes.std()) / math.sqrt(draws),
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The variances by the mean and by the number of samples, and gradients through other distributions."""
    figure = new_figure(13.2, 4.4)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.1, 1.1, 1.2))
    for name, color in zip(NAMES, PALETTE, strict=False):
        found = [each["variance"] for each in numbers["measured"][name]]
        left.plot(numbers["means"], numbers["exact"][name], color=color, label=name)
        left.plot(numbers["means"], found, "o", color=color, markersize=5)
        line = [numbers["at"][name] / count for count in numbers["counts"]]
        middle.plot(numbers["counts"], line, color=color)
        middle.plot(numbers["counts"], numbers["by_count"][name], "o", color=color, markersize=5, label=name)
    left.set_yscale("log")
    left.set_ylim(top=8 * max(numbers["exact"][NAMES[0]]))
    dress(left, "One sample: drawn (dots), exact (lines)", "mean φ", "variance of the gradient")
    legend(left)
    middle.set_xscale("log", base=2)
    middle.set_yscale("log")
    dress(middle, f"The mean of L samples at φ = {AT:g}", "samples L", "variance of the gradient")
    _draw_others(right, numbers["reparameterized"])
    return figure


def _draw_others(axes: Axes, rows: list[dict[str, Any]]) -> None:
    places = range(len(rows))
    off = [(row["measured"] - row["exact"]) / row["error"] for row in rows]
    axes.errorbar(off, list(places), xerr=1, fmt="o", color=PALETTE[2], ecolor=MUTED, markersize=6)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(list(places), [f"{row['name']}\nexact {row['exact']:.3g}" for row in rows], fontsize=8)
    axes.set_xlim(-5, 5)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    dress(axes, "Other distributions, reparameterized", "error of the gradient in standard errors")


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """How much smaller the variance becomes, how far it is from the formulas, and what the other gradients miss."""
    last = numbers["means"][-1]
    score, control, path = (numbers["measured"][name][-1]["variance"] for name in NAMES)
    gap = max(
        abs(each["variance"] / exact - 1)
        for name in NAMES
        for each, exact in zip(numbers["measured"][name], numbers["exact"][name], strict=True)
    )
    bias = max(abs(each["off"]) for name in NAMES for each in numbers["measured"][name])
    shares = max(
        abs(found * count / numbers["at"][name] - 1)
        for name in NAMES
        for found, count in zip(numbers["by_count"][name], numbers["counts"], strict=True)
    )
    worst = max(numbers["reparameterized"], key=lambda row: abs(row["measured"] - row["exact"]) / row["error"])
    off = abs(worst["measured"] - worst["exact"]) / worst["error"]
    return (
        f"At a mean of {last:g} the score function has {score / path:.3g} times the variance of reparameterization, "
        f"with the best constant subtracted {control / path:.3g} times.",
        f"The variances are those of the formulas up to {gap:.1%}, and no mean is off by more than {bias:.1f} standard "
        "errors.",
        f"The mean of L samples has 1/L of the variance, up to {shares:.1%}.",
        f"Inverse and implicit reparameterization miss the exact derivative by at most {off:.1f} standard errors "
        f"({worst['name']}).",
    )

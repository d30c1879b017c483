"""Noise and divergence: the KL divergence falls by the Fisher divergence as noise is added."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.pictures.style import INK, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded

Mixture = tuple[tuple[float, float, float], ...]
"""Components of a mixture on a line: weight, mean and variance of each."""

PAIRS: dict[str, tuple[Mixture, Mixture]] = {
    "two Gaussians": (((1.0, 0.0, 0.5),), ((1.0, 1.0, 1.5),)),
    "two modes and one": (((0.5, -1.5, 0.2), (0.5, 1.5, 0.2)), ((1.0, 0.0, 2.0),)),
    "unequal modes": (((0.8, -1.0, 0.1), (0.2, 1.5, 0.3)), ((0.3, -1.0, 0.1), (0.7, 1.5, 0.3))),
}
REACH = 14.0
"""The numbers that the integrals go through, on both sides of 0."""


def noise_and_divergence(*, times: int = 25, longest: float = 2.0, points: int = 20_001, seed: int = 0) -> Finding:
    r"""The KL divergence of two distributions under added noise, whose rate of fall is the Fisher divergence.

    Both become :math:`p_t = p * N(0, t)` and :math:`q_t = q * N(0, t)`, and with their scores :math:`\psi`

    .. math:: \frac{d}{dt} KL(p_t \,\|\, q_t) = -\frac12 E_{p_t} (\psi_{p_t} - \psi_{q_t})^2

    So score matching at all noise levels bounds the divergence of the distributions themselves:
    :math:`KL(p \,\|\, q)` is the integral of the right-hand side over all t, since under much noise the two are alike.
    Densities are mixtures on a line, which noise keeps mixtures; integrals are sums over a fine grid in double
    precision, and the rate is a central difference. For two Gaussians both sides are known in closed form.

    References:
        | Interpretation and Generalization of Score Matching (Lyu, 2009), https://arxiv.org/abs/1205.2629
        | Maximum Likelihood Training of Score-Based Diffusion Models (Song et al., 2021),
          https://arxiv.org/abs/2101.09258

    Arguments:
        times: How many noise variances t there are, from 0 up.
        longest: The largest of them.
        points: How many points the grid has.
        seed: The seed of the last pair, two random mixtures of three Gaussians each.
    """
    at_least(2, times=times)
    at_least(1001, points=points)
    levels = [longest * i / (times - 1) for i in range(times)]
    random = torch.Generator().manual_seed(seed)
    pairs = {**PAIRS, "random mixtures": (random_mixture(random), random_mixture(random))}
    numbers = {
        "settings": f"{times} variances up to {longest:g}; sums over {points} points; seed {seed}",
        "times": levels,
        "pairs": {name: _followed(p, q, levels, points) for name, (p, q) in pairs.items()},
    }
    return concluded(numbers, sentences, draw)


def random_mixture(random: torch.Generator) -> Mixture:
    """A mixture of three Gaussians with means from -3 to 3 and variances from 0.2 to 1.2."""
    weight, mean, variance = torch.rand(3, 3, generator=random, dtype=torch.float64)
    shares = (0.2 + weight) / (0.2 + weight).sum()
    return tuple(zip(shares.tolist(), (6 * mean - 3).tolist(), (0.2 + variance).tolist(), strict=True))


def log_density(mixture: Mixture, x: Tensor, t: float) -> Tensor:
    """The log-density of a mixture with added noise of the variance t."""
    weight, mean, variance = (torch.tensor(values, dtype=x.dtype) for values in zip(*mixture, strict=True))
    spread = variance + t
    parts = -0.5 * (x.unsqueeze(-1) - mean).square() / spread - 0.5 * (2 * math.pi * spread).log()
    return (weight.log() + parts).logsumexp(-1)


def kl_divergence(p: Mixture, q: Mixture, t: float, points: int = 20_001) -> float:
    """The KL divergence of p from q, both with added noise of the variance t.

    >>> round(kl_divergence(((1.0, 0.0, 1.0),), ((1.0, 1.0, 1.0),), 0.0), 10)
    0.5
    """
    x = _grid(points)
    log_p, log_q = (log_density(mixture, x, t) for mixture in (p, q))
    return float(torch.trapezoid(log_p.exp() * (log_p - log_q), x))


def fisher_divergence(p: Mixture, q: Mixture, t: float, points: int = 20_001) -> float:
    """The mean squared difference of the scores under p, both with added noise of the variance t.

    >>> round(fisher_divergence(((1.0, 0.0, 1.0),), ((1.0, 1.0, 1.0),), 1.0), 10)
    0.25
    """
    x = _grid(points).requires_grad_()
    scores = [torch.autograd.grad(log_density(mixture, x, t).sum(), x)[0] for mixture in (p, q)]
    density = log_density(p, x, t).exp().detach()
    return float(torch.trapezoid(density * (scores[0] - scores[1]).square(), x.detach()))


def _grid(points: int) -> Tensor:
    return torch.linspace(-REACH, REACH, points, dtype=torch.float64)


def _followed(p: Mixture, q: Mixture, levels: list[float], points: int) -> dict[str, Any]:
    step = 1e-4
    rates = [
        (kl_divergence(p, q, t + step, points) - kl_divergence(p, q, t - step, points)) / (2 * step) for t in levels
    ]
    return {
        "kl": [kl_divergence(p, q, t, points) for t in levels],
        "rate": rates,
        "fisher": [fisher_divergence(p, q, t, points) for t in levels],
    }


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The divergences by the added noise, and their rates with half of the Fisher divergence."""
    figure = new_figure(12.4, 4.4)
    left, right = figure.subplots(1, 2)
    for (name, pair), color in zip(numbers["pairs"].items(), PALETTE, strict=False):
        left.plot(numbers["times"], pair["kl"], color=color, label=name)
        right.plot(numbers["times"], [-rate for rate in pair["rate"]], color=color, label=name)
        half = [fisher / 2 for fisher in pair["fisher"]]
        right.plot(numbers["times"], half, "o", color=color, markersize=4)
    right.plot([], [], "o", color=INK, markersize=4, label="half of the Fisher divergence")
    right.set_yscale("log")
    dress(left, "KL divergence", "variance t of the noise", "nats")
    dress(right, "Its fall per unit of noise", "variance t of the noise", "nats")
    legend(left)
    legend(right)
    return figure


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """How well the identity holds, and how much of each divergence is left at the end."""
    gaps = {
        name: max(
            abs(rate + fisher / 2) / (fisher / 2) for rate, fisher in zip(pair["rate"], pair["fisher"], strict=True)
        )
        for name, pair in numbers["pairs"].items()
    }
    worst = max(gaps, key=lambda name: gaps[name])
    left = ", ".join(f"{pair['kl'][-1] / pair['kl'][0]:.1%} ({name})" for name, pair in numbers["pairs"].items())
    falling = all(after < before for pair in numbers["pairs"].values() for before, after in pairwise(pair["kl"]))
    return (
        f"The KL divergence falls by half of the Fisher divergence: the two rates differ by at most {gaps[worst]:.1g} "
        f"of them ({worst}).",
        f"Noise of variance {numbers['times'][-1]:g} leaves {left} of the divergence"
        + (", which falls throughout." if falling else ", which does not fall throughout."),
    )

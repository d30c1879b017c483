"""Posterior collapse: latents that a VAE leaves unused, by the weight of the KL divergence and its warm-up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.core import Batch, Model
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.optim import optimizer
from deepcanon.pictures.style import PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, draw_band, interval
from deepcanon.train.randomness import kept, seed_torch

DATA = "digits:binary"
ACTIVE = 0.01
"""The variance of a latent's posterior means over the data above which it counts as active."""
RATE, BATCH = 0.01, 100
WAYS = {"no warm-up": 0.0, "warm-up": 0.5}
"""For which share of the training the weight of the KL divergence grows from 0."""


def posterior_collapse(
    vae: type[Model[Any]],
    *,
    betas: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0),
    latent: int = 16,
    hidden: int = 64,
    steps: int = 600,
    seeds: int = 5,
    seed: int = 0,
) -> Finding:
    r"""Posterior collapse: the active latents of a VAE by the weight of the KL divergence, with and without warm-up.

    The loss weights the terms of the bound by :math:`\beta`; with 1 it is the negative ELBO.

    .. math:: E_{q(z \mid x)}[-\log p(x \mid z)] + \beta_t \, KL(q(z \mid x) \,\|\, p(z))

    A latent is active if its posterior mean depends on the data, :math:`\mathrm{Var}_x(\mu_j(x)) > 0.01`; the posterior
    of a collapsed one is the prior. With warm-up :math:`\beta_t` grows from 0 to :math:`\beta` over the first half of
    the training, so that latents are not given up before the decoder has learned to use them.

    References:
        | beta-VAE: Learning Basic Visual Concepts with a Constrained Variational Framework (Higgins et al., 2017),
          https://openreview.net/forum?id=Sy2fzU9gl
        | Importance Weighted Autoencoders (Burda et al., 2016), https://arxiv.org/abs/1509.00519
        | Ladder Variational Autoencoders (Sønderby et al., 2016), https://arxiv.org/abs/1602.02282

    Arguments:
        vae: The variational autoencoder.
        betas: The weights of the KL divergence.
        latent: The number of latents.
        hidden: The width of the hidden layer of encoder and decoder.
        steps: The steps of each training.
        seeds: From how many seeds each is trained.
        seed: The first seed.
    """
    at_least(1, betas=len(betas), latent=latent, hidden=hidden, steps=steps)
    at_least(2, seeds=seeds)
    loaded = load_data(DATA)
    x, test = loaded.train.x, loaded.split("test").x
    sizes = {"latent": latent, "hidden": (hidden,), "likelihood": "bernoulli"}
    found: dict[str, list[list[dict[str, float]]]] = {}
    with kept():
        for way, share in WAYS.items():
            found[way] = []
            for number in range(seed, seed + seeds):
                rows = []
                for beta in betas:
                    seed_torch(number)
                    model: Any = vae(features=x[0].numel(), **sizes)
                    learn(model, x, beta, share, steps, Generator().manual_seed(number))
                    rows.append(measured(model, test))
                found[way].append(rows)
    numbers = {
        "settings": (
            f"{DATA}; {counted(latent, 'latent')}, {counted(hidden, 'hidden unit')}, {counted(steps, 'step')} of Adam; "
            f"β from {betas[0]:g} to {betas[-1]:g}; active: variance of the means above {ACTIVE:g}; "
            f"{counted(seeds, 'seed')}, means with {CERTAIN}"
        ),
        "betas": list(betas),
        "latent": latent,
        "found": found,
    }
    return concluded(numbers, sentences, draw)


def learn(model: Any, x: Tensor, beta: float, share: float, steps: int, random: Generator) -> None:
    """Steps of Adam along a cosine, with a weight of the KL divergence that grows over a share of them."""
    descent = optimizer("adam", list(model.parameters()), RATE)
    for step in range(steps):
        descent.param_groups[0]["lr"] = RATE * (1 + math.cos(math.pi * step / steps)) / 2
        terms = model.loss(Batch(x[torch.randint(len(x), (BATCH,), generator=random)]))
        loss = terms["reconstruction"] + weight(beta, share, step, steps) * terms["kl"]
        descent.zero_grad()
        loss.backward()
        descent.step()


def weight(beta: float, share: float, step: int, steps: int) -> float:
    """The weight of the KL divergence at a step.

    >>> [weight(2.0, 0.5, step, 8) for step in (0, 2, 4, 7)], weight(2.0, 0.0, 0, 8)
    ([0.0, 1.0, 2.0, 2.0], 2.0)
    """
    return beta * min(1.0, step / (share * steps)) if share else beta


@torch.no_grad()
def measured(model: Any, x: Tensor) -> dict[str, float]:
    """The number of active latents, the KL divergence, and the negative ELBO, which has the weight 1."""
    terms = model.loss(Batch(x))
    return {
        "active": float((model.encode(x).mean.var(0) > ACTIVE).sum()),
        "kl": float(terms["kl"]),
        "bound": float(terms["reconstruction"] + terms["kl"]),
    }


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The active latents at both ends, what warm-up adds, and by which weight the bound is best."""
    betas, found = numbers["betas"], numbers["found"]
    plain, warm = (_by_beta(found[way], "active") for way in WAYS)
    gains = [_gain(*both, len(betas)) for both in zip(plain, warm, strict=True)]
    listed = ", ".join(
        f"{gain:.1f} ± {width:.1f} (β = {beta:g})" for beta, (gain, width) in zip(betas, gains, strict=True)
    )
    sure = [f"{beta:g}" for beta, (gain, width) in zip(betas, gains, strict=True) if abs(gain) > width]
    bounds = {way: [fmean(values) for values in _by_beta(found[way], "bound")] for way in WAYS}
    lowest = {way: min(range(len(betas)), key=lambda i, way=way: bounds[way][i]) for way in WAYS}  # type: ignore[misc]
    return (
        f"Of {counted(numbers['latent'], 'latent')}, {_mean(plain[0])} are active with β = {betas[0]:g} and "
        f"{_mean(plain[-1])} with β = {betas[-1]:g}.",
        f"Warm-up adds {listed} active latents; more than chance can be seen at "
        + (f"β = {', '.join(sure)}." if sure else "no β."),
        "The negative ELBO of the test data is lowest "
        + " and ".join(f"at β = {betas[i]:g} with {bounds[way][i]:.2f} nats ({way})" for way, i in lowest.items())
        + ".",
    )


def _by_beta(seeds: list[list[dict[str, float]]], key: str) -> list[list[float]]:
    """The values of all seeds, for each weight."""
    return [[row[key] for row in rows] for rows in zip(*seeds, strict=True)]


def _gain(plain: list[float], warm: list[float], candidates: int) -> tuple[float, float]:
    """The mean difference, paired by seeds, with an interval that allows for so many weights looked at."""
    return interval([b - a for a, b in zip(plain, warm, strict=True)], candidates + 1)


def _mean(values: list[float]) -> str:
    middle, width = interval(values)
    return f"{middle:.1f} ± {width:.1f}"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Active latents, KL divergence and bound by the weight, with the range of the seeds."""
    figure = new_figure(13.2, 4.4)
    titles = {"active": ("Active latents", "latents"), "kl": ("KL divergence", "nats"),
              "bound": ("Negative ELBO, test", "nats")}  # fmt: skip
    for axes, (key, (title, unit)) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        for way, color in zip(WAYS, PALETTE, strict=False):
            curves = [[row[key] for row in rows] for rows in numbers["found"][way]]
            draw_band(axes, numbers["betas"], curves, color, way)
            for curve in curves:
                axes.plot(numbers["betas"], curve, "o", color=color, alpha=0.5, markersize=3)
        axes.set_xscale("log", base=2)
        dress(axes, title, "weight β of the KL divergence", unit)
        legend(axes)
    return figure

"""Games of generators and discriminators: the modes they cover, their values, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn
from torch.distributions import Normal

from deepcanon.core import Batch, Model
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.data.sets.plane_points import STD, centers
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.trained import trained
from deepcanon.train.randomness import kept, seed_torch

DATA = "eight-gaussians"
GAMES = {"minimax": "minimax", "non_saturating": "non-saturating", "wasserstein": "Wasserstein"}
CRITIC_STEPS = 3
"""The steps of the critic of the Wasserstein game for each of its generator's; the others have one."""
SAMPLES, LEAST = 2000, 0.01
"""A mode is covered if it has at least this share of so many samples within three standard deviations."""
ROWS, MEASURED = 50_000, 100_000
"""On how many examples the discriminator of a known pair is trained, and on how many others the game is measured."""


def games(
    gan: type[Model[Any]],
    wgan: type[Model[Any]],
    *,
    distances: tuple[float, ...] = (0.0, 1.0, 2.0, 4.0, 6.0),
    steps: int = 400,
    seeds: int = 5,
    seed: int = 0,
) -> Finding:
    r"""The minimax, the non-saturating and the Wasserstein game: modes covered, values, gradients of the generator.

    First, each game is played on eight Gaussians, and the modes that its generator covers are counted. Then data and
    samples are a known pair, p a Gaussian at a distance d from another one, q. The best discriminator is known there,
    and so is the value of the game against it.

    .. math:: D^* = \frac{p}{p + q}, \qquad \max_D V = 2 JS(p \,\|\, q) - \log 4

    A discriminator is trained on this pair and held to both. Last, the gradient of each generator is measured with
    respect to its place against the best discriminator, or the best critic: the farther q is from p, the surer the
    discriminator, and the less a minimax generator learns.

    References:
        | Generative Adversarial Networks (Goodfellow et al., 2014), https://arxiv.org/abs/1406.2661
        | Wasserstein Generative Adversarial Networks (Arjovsky et al., 2017), https://arxiv.org/abs/1701.07875

    Arguments:
        gan: The GAN, of the minimax and of the non-saturating game.
        wgan: The Wasserstein GAN.
        distances: The distances of the known pairs.
        steps: The steps of each generator on eight Gaussians.
        seeds: From how many seeds each is played.
        seed: The first seed.
    """
    at_least(1, distances=len(distances), steps=steps, seeds=seeds)
    loaded = load_data(DATA)
    modes = {
        game: [
            covered(trained(cls, loaded, number, arguments, steps=steps * arguments["critic_steps"]), number)
            for number in range(seed, seed + seeds)
        ]
        for game, cls, arguments in _players(gan, wgan)
    }
    with kept():
        seed_torch(seed)
        pairs = [known_pair(gan, wgan, distance) for distance in distances]
    numbers = {
        "settings": (
            f"{DATA}: {counted(steps, 'step')} of each generator, by the recipes of the models, "
            f"{counted(seeds, 'seed')}, {SAMPLES:,} samples each, a mode is covered by {LEAST:.0%} of "
            f"them; Gaussians at distances {distances[0]:g} to "
            f"{distances[-1]:g}: a linear discriminator, trained on {ROWS:,} examples of each"
        ),
        "modes": modes,
        "pairs": pairs,
    }
    return concluded(numbers, sentences, draw)


def _players(gan: type[Model[Any]], wgan: type[Model[Any]]) -> list[tuple[str, type[Model[Any]], dict[str, Any]]]:
    """The name of each game, its model, and the arguments that make it."""
    return [
        ("minimax", gan, {"game": "minimax", "critic_steps": 1}),
        ("non_saturating", gan, {"game": "non_saturating", "critic_steps": 1}),
        ("wasserstein", wgan, {"critic_steps": CRITIC_STEPS}),
    ]


def covered(model: Any, seed: int) -> int:
    """The number of the eight modes that samples of the model cover."""
    x = model.sample(SAMPLES, generator=Generator().manual_seed(seed))
    near = torch.cdist(x.double(), centers()) <= 3 * STD
    return int((near.double().mean(0) >= LEAST).sum())


def known_pair(gan: type[Model[Any]], wgan: type[Model[Any]], distance: float) -> dict[str, Any]:
    """The trained discriminator and the gradients of all generators, where p is N(distance, 1) and q is N(0, 1)."""
    model: Any = gan(features=1, latent=1, hidden=()).double()
    _standard_normal(model)
    x, state = torch.randn(ROWS, 1, dtype=torch.float64) + distance, torch.get_rng_state()
    descent = torch.optim.LBFGS(model.discriminator.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        torch.set_rng_state(state)  # the same samples each time
        descent.zero_grad()
        loss = torch.stack(list(model.discriminator_loss(Batch(x)).values())).sum()
        loss.backward()
        return loss

    descent.step(closure)
    with torch.no_grad():
        terms = model.discriminator_loss(Batch(torch.randn(MEASURED, 1, dtype=torch.float64) + distance))
        grid = torch.linspace(-3, distance + 3, 201, dtype=torch.float64)
        found = model.discriminate(grid.unsqueeze(1)).sigmoid()
    best = (distance * (grid - distance / 2)).sigmoid()  # p / (p + q)
    gradients = {}
    for game, cls, arguments in _players(gan, wgan):
        player: Any = cls(features=1, latent=1, hidden=(), **arguments).double()
        _standard_normal(player)
        layer = _linear(player.discriminator)
        with torch.no_grad():  # the best discriminator, whose log-odds are linear; the best critic has slope 1
            layer.weight.fill_(1.0 if game == "wasserstein" else distance)
            if layer.bias is not None:
                layer.bias.fill_(-(distance**2) / 2)
        (term,) = player.loss(Batch(torch.zeros(MEASURED, 1, dtype=torch.float64))).values()
        (gradient,) = torch.autograd.grad(term, _linear(player.generator).bias)
        gradients[game] = float(gradient.abs())
    return {
        "distance": distance,
        "value": -float(sum(terms.values())),
        "exact": twice_js(distance) - math.log(4),
        "error": float((found - best).abs().max()),
        "gradients": gradients,
    }


def twice_js(distance: float) -> float:
    """Twice the Jensen-Shannon divergence of two unit Gaussians at this distance, by quadrature.

    >>> round(twice_js(0.0), 9), round(twice_js(40.0) - math.log(4), 9)
    (0.0, 0.0)
    """
    grid = torch.linspace(-12, distance + 12, 40_001, dtype=torch.float64)
    one, other = (Normal(place, 1.0).log_prob(grid).exp() for place in (distance, 0.0))
    middle = (one + other) / 2
    terms = torch.xlogy(one, one / middle) + torch.xlogy(other, other / middle)
    return float(torch.trapezoid(terms.nan_to_num(), grid))


def _standard_normal(model: Any) -> None:
    """Let the generator give N(0, 1) exactly."""
    layer = _linear(model.generator)
    nn.init.ones_(layer.weight)
    nn.init.zeros_(layer.bias)


def _linear(part: nn.Module) -> nn.Linear:
    return next(layer for layer in part.modules() if isinstance(layer, nn.Linear))


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The modes of each game, how close value and discriminator come to theory, and the gradients far away."""
    modes, pairs = numbers["modes"], numbers["pairs"]
    listed = ", ".join(
        f"{words} {fmean(modes[game]):.1f} (from {min(modes[game])} to {max(modes[game])})"
        for game, words in GAMES.items()
    )
    gap, error = (
        max(measure) for measure in zip(*((abs(p["value"] - p["exact"]), p["error"]) for p in pairs), strict=True)
    )
    far = pairs[-1]
    slopes = ", ".join(f"{words} {far['gradients'][game]:.2g}" for game, words in GAMES.items())
    return (
        f"Modes of eight that are covered, in the mean over seeds: {listed}.",
        f"Against a trained discriminator the game is worth 2 JS - log 4 up to {gap:.3f} nats, and D is p / (p + q) up "
        f"to {error:.3f}.",
        f"At a distance of {far['distance']:g}, where data and samples hardly overlap, the gradients of the generators "
        f"are {slopes}.",
    )


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The modes by seed, the value of the game and the gradients by the distance of the pair."""
    figure = new_figure(13.2, 4.4)
    first, second, third = figure.subplots(1, 3)
    for place, (game, color) in enumerate(zip(GAMES, PALETTE, strict=False)):
        counts = numbers["modes"][game]
        spread = [place + 0.25 * (number / max(1, len(counts) - 1) - 0.5) for number in range(len(counts))]
        first.plot(spread, counts, "o", color=color, markersize=6)
    first.set_xticks(range(len(GAMES)), list(GAMES.values()))
    first.set_ylim(-0.4, 8.6)
    first.axhline(8, color=MUTED, linewidth=1, linestyle="--")
    dress(first, "Modes covered, each seed", "", "of eight")
    pairs = numbers["pairs"]
    distances = [pair["distance"] for pair in pairs]
    fine = [max(distances) * i / 60 for i in range(61)]
    second.plot(fine, [twice_js(d) - math.log(4) for d in fine], color=MUTED, label="2 JS - log 4")
    second.plot(distances, [pair["value"] for pair in pairs], "o", color=PALETTE[0], label="trained discriminator")
    dress(second, "Value of the game", "distance of the two Gaussians", "nats")
    legend(second)
    for (game, words), color in zip(GAMES.items(), PALETTE, strict=False):
        third.plot(distances, [pair["gradients"][game] for pair in pairs], "o-", color=color, label=words)
    third.set_yscale("symlog", linthresh=1e-4)
    dress(third, "Gradient against the best discriminator", "distance of the two Gaussians", "size")
    legend(third)
    return figure

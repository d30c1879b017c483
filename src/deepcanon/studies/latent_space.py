"""Latent space: dead zones and interpolations of autoencoders and variational autoencoders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor
from torch.distributions import Normal

from deepcanon.core import Model, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.pictures.images import draw_images
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, draw_band, interval
from deepcanon.studies._helpers.trained import trained

NAMES = ("autoencoder", "vae")
UNSURE = 0.5
"""A decoded code lies in a dead zone where the classifier's confidence is below this."""
PLACES = 11
"""How many points an interpolation has, both ends included."""
SHOWN = PLACES
"""How many samples are shown, and points of a path: all."""
SIDE = 9
"""How many values of each of two latents a map of the latent space has."""


def latent_space(
    autoencoder: type[Model[Any]],
    vae: type[Model[Any]],
    mlp: type[Model[Any]],
    *,
    data: str = "digits",
    latent: int = 8,
    hidden: int = 64,
    steps: int = 600,
    samples: int = 2000,
    seeds: int = 5,
    seed: int = 0,
) -> Finding:
    r"""The latent space of an autoencoder and of a VAE: dead zones of the prior, and interpolations between examples.

    Both have the same networks. Codes are drawn and decoded, and a classifier that was trained on the same data says
    how sure it is of a class, :math:`\max_y p(y \mid d(z))`. Codes of which it is not lie in a dead zone.
    A VAE has a prior; an autoencoder has none, and gets the Gaussian with the mean and the covariance of its codes.

    .. math:: z \sim N(0, I) \text{ (VAE)}, \qquad
              z \sim N(\bar e, \operatorname{Cov} e), \; e = e(x) \text{ (autoencoder)}

    An interpolation goes along a straight line from the code of a test example to that of one of another class,
    :math:`z_t = (1 - t) \, e(x) + t \, e(x')`.

    A latent space of two dimensions can be shown as a whole: both are trained again with two latents, and decoded on a
    grid of quantiles of the prior, :math:`z = \Phi^{-1}(u)` with u from 0.05 to 0.95 along each axis.

    References:
        | Auto-Encoding Variational Bayes (Kingma and Welling, 2014), https://arxiv.org/abs/1312.6114
        | Understanding and Improving Interpolation in Autoencoders via an Adversarial Regularizer (Berthelot et al.,
          2019), https://arxiv.org/abs/1807.07543

    Arguments:
        autoencoder: The autoencoder.
        vae: The variational autoencoder.
        mlp: The classifier.
        data: The data set, of images with classes.
        latent: The dimension of the code.
        hidden: The width of the hidden layer of each network.
        steps: The training steps of each.
        samples: How many codes are drawn from each prior.
        seeds: From how many seeds both are trained.
        seed: The first seed, and that of the classifier.
    """
    at_least(1, latent=latent, hidden=hidden, steps=steps)
    at_least(SHOWN, samples=samples)
    at_least(2, seeds=seeds)
    loaded = load_data(data)
    if loaded.kind != "images" or "classes" not in loaded.sizes:
        raise UsageError(f"latent spaces are studied on images with classes; {data} gives {loaded.train.noun}")
    test = loaded.split("test")
    classifier = trained(mlp, loaded, seed)
    pairs = _pairs(test.y)
    found: dict[str, dict[str, list[Any]]] = {name: {} for name in NAMES}
    shown: dict[str, Any] = {}
    grid = quantiles(SIDE)
    for number in range(seed, seed + seeds):
        noise = torch.randn(samples, latent, generator=Generator().manual_seed(number))
        for name, cls in zip(NAMES, (autoencoder, vae), strict=True):
            model = trained(cls, loaded, number, {"latent": latent, "hidden": (hidden,)}, steps=steps)
            drawn = decoded(model, noise if name == "vae" else like_codes(noise, codes(model, loaded.train.x)))
            paths = decoded(model, path(*codes(model, test.x)[pairs]))  # (places, pairs, features)
            sure = confidence(classifier, drawn, loaded.shape)
            along = confidence(classifier, paths.flatten(0, 1), loaded.shape).reshape(paths.shape[:2])
            flat = trained(cls, loaded, number, {"latent": 2, "hidden": (hidden,)}, steps=steps)
            plane = decoded(flat, grid if name == "vae" else like_codes(grid, codes(flat, loaded.train.x)))
            rebuilt = confidence(classifier, decoded(model, codes(model, test.x)), loaded.shape)
            for key, value in {
                "prior": float(sure.mean()),
                "dead": float((sure < UNSURE).double().mean()),
                "path": along.mean(1).tolist(),
                "reconstructed": float(rebuilt.mean()),
                "plane": float(confidence(classifier, plane, loaded.shape).mean()),
            }.items():
                found[name].setdefault(key, []).append(value)
            if number == seed:
                shown[name] = {
                    "samples": _rounded(drawn[:SHOWN]),
                    "path": _rounded(paths[:, 0]),
                    "plane": _rounded(plane),
                }
    blended = [confidence(classifier, x, loaded.shape) for x in path(*test.x.flatten(1)[pairs])]
    numbers = {
        "settings": (
            f"{data}; networks with {counted(hidden, 'hidden unit')} and {counted(latent, 'latent')}, "
            f"{counted(steps, 'step')} each, maps with 2; {counted(samples, 'code')} from each prior; one classifier; "
            f"{counted(seeds, 'seed')}, means with {CERTAIN}"
        ),
        "found": found,
        "real": float(confidence(classifier, test.x, loaded.shape).mean()),
        "blended": [float(sure.mean()) for sure in blended],
        "shape": list(loaded.shape),
        "shown": shown,
    }
    return concluded(numbers, sentences, draw)


@torch.no_grad()
def codes(model: Any, x: Tensor) -> Tensor:
    """The code of each example: of a distribution its mean."""
    code = model.encode(x)
    mean: Tensor = code if isinstance(code, Tensor) else code.mean
    return mean


@torch.no_grad()
def decoded(model: Any, z: Tensor) -> Tensor:
    """The decoded examples, flat: of a distribution its mean."""
    x = model.decode(z)
    mean: Tensor = x if isinstance(x, Tensor) else x.mean
    return mean


def like_codes(noise: Tensor, code: Tensor) -> Tensor:
    """Standard normal noise, given the mean and the covariance of codes."""
    values, vectors = torch.linalg.eigh(torch.cov(code.T).reshape(code.shape[1], -1))
    found: Tensor = code.mean(0) + noise * values.clamp(min=0).sqrt() @ vectors.T
    return found


def quantiles(side: int) -> Tensor:
    """The points of a grid over two latents, (side², 2), row by row from the top, where the prior has equal shares.

    >>> quantiles(3).shape, bool(quantiles(3)[4].abs().max() < 1e-6)
    (torch.Size([9, 2]), True)
    """
    values = Normal(0.0, 1.0).icdf(torch.linspace(0.05, 0.95, side))
    return torch.cartesian_prod(values.flip(0), values).flip(1)


def path(start: Tensor, end: Tensor) -> Tensor:
    """Points on the straight lines from each row to the other, (places, rows, values)."""
    t = torch.linspace(0, 1, PLACES).reshape(-1, 1, 1).to(start)
    return torch.lerp(start.unsqueeze(0), end.unsqueeze(0), t)


@torch.no_grad()
def confidence(classifier: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The largest probability of a class for each example."""
    largest: Tensor = classifier.predict(x.reshape(-1, *shape), how="mean").double().amax(1)
    return largest


def _pairs(y: Tensor) -> Tensor:
    """Positions of examples of unlike classes, (2, pairs): the first half with the second."""
    half = len(y) // 2
    first = torch.arange(half)
    unlike = y[:half] != y[half : 2 * half]
    if not bool(unlike.any()):
        raise UsageError("interpolations go between classes, and the test examples have one class only")
    return torch.stack([first[unlike], first[unlike] + half])


def _rounded(x: Tensor) -> list[list[float]]:
    return [[round(value, 3) for value in row] for row in x.tolist()]


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Confidence in decoded samples, the share of dead zones, interpolations, and reconstructions."""
    plain, varied = (numbers["found"][name] for name in NAMES)
    middle = {name: [row[PLACES // 2] for row in numbers["found"][name]["path"]] for name in NAMES}
    return (
        "In decoded samples of the prior a classifier's confidence is "
        + _compared(plain["prior"], varied["prior"], "{:.3f}")
        + ".",
        f"In a dead zone, with a confidence below {UNSURE:g}, are "
        + _compared(plain["dead"], varied["dead"], "{:.1%}")
        + " of the samples.",
        "Halfway between test examples of two classes the confidence is "
        + _compared(middle["autoencoder"], middle["vae"], "{:.3f}")
        + f"; halfway between the images themselves {numbers['blended'][PLACES // 2]:.3f}.",
        "In reconstructions of test examples it is "
        + _compared(plain["reconstructed"], varied["reconstructed"], "{:.3f}")
        + f", and in the examples themselves {numbers['real']:.3f}.",
        "With two latents, on a grid over the prior, it is "
        + _compared(plain["plane"], varied["plane"], "{:.3f}")
        + ".",
    )


def _compared(plain: list[float], varied: list[float], form: str) -> str:
    """Both means with their intervals, and whether they differ, paired by seeds."""

    def mean(values: list[float]) -> str:
        return " ± ".join(form.format(value) for value in interval(values))

    apart, width = interval([b - a for a, b in zip(plain, varied, strict=True)])
    verdict = "cannot be told apart" if abs(apart) <= width else ("VAE higher" if apart > 0 else "VAE lower")
    return f"{mean(plain)} (autoencoder) and {mean(varied)} (VAE; {verdict})"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Confidence seed by seed and along interpolations; samples, paths and maps of the first seed."""
    figure = new_figure(13.6, 8.8)
    halves = figure.add_gridspec(2, 1)
    above, below = halves[0].subgridspec(1, 2), halves[1].subgridspec(1, 3)
    left, middle = (figure.add_subplot(above[place]) for place in range(2))
    *maps, right = (figure.add_subplot(below[place]) for place in range(3))
    for name, axes in zip(NAMES, maps, strict=True):
        _draw_map(axes, name, numbers)
    for name, color in zip(NAMES, PALETTE, strict=False):
        found = numbers["found"][name]
        for place, key in enumerate(("prior", "reconstructed")):
            shift = -0.12 if name == "autoencoder" else 0.12
            left.plot([place + shift] * len(found[key]), found[key], "o", color=color, alpha=0.7, markersize=5)
        left.plot([], [], "o", color=color, label=name)
        draw_band(middle, _line(numbers), found["path"], color, name)
    left.axhline(numbers["real"], color=INK, linewidth=1, linestyle="--", label="test examples")
    left.set_xticks([0, 1], ["samples of the prior", "reconstructions"])
    left.set_xlim(-0.5, 1.5)
    low, high = left.get_ylim()
    left.set_ylim(low - 0.5 * (high - low), high)
    dress(left, "Each dot is a seed", "", "mean confidence of the classifier")
    legend(left).set_loc("lower right")
    middle.plot(_line(numbers), numbers["blended"], color=MUTED, linestyle="--", linewidth=1, label="of the images")
    dress(middle, "Along interpolations: mean and range of seeds", "from one example to the other", "mean confidence")
    legend(middle)
    _draw_rows(right, numbers)
    return figure


def _line(numbers: Mapping[str, Any]) -> list[float]:
    points = len(numbers["blended"])
    return [place / (points - 1) for place in range(points)]


def _draw_map(axes: Axes, name: str, numbers: Mapping[str, Any]) -> None:
    images = torch.tensor(numbers["shown"][name]["plane"]).clamp(0, 1)
    draw_images(axes, images, numbers["shape"], SIDE)
    dress(axes, f"{name}: two latents, a grid over the prior", "first latent", "second latent", grid=False)
    axes.set_xticks([])
    axes.set_yticks([])


def _draw_rows(axes: Axes, numbers: Mapping[str, Any]) -> None:
    rows = [(f"{name}: {words}", numbers["shown"][name][key])
            for key, words in (("samples", "samples"), ("path", "a path")) for name in NAMES]  # fmt: skip
    images = torch.tensor([image for _, row in rows for image in row]).clamp(0, 1)
    draw_images(axes, images, numbers["shape"], SHOWN)
    high = (axes.get_ylim()[0] + axes.get_ylim()[1]) / len(rows)
    dress(axes, "Decoded, of the first seed", grid=False)
    axes.set_yticks([(i + 0.5) * high for i in range(len(rows))], [words for words, _ in rows])
    axes.tick_params(length=0)

"""Classifier-free guidance: samples of which a classifier is surer, at the cost of diversity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.comparison.quality import Yardstick, coverage
from deepcanon.core import Model, UsageError
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.pictures.images import draw_images
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.trained import trained

DDIM_STEPS = 50
"""The number of steps of DDIM sampling."""
CONFIDENCE, Z = 0.95, 1.96
SHOWN = 10
"""How many classes are shown, with a sample of each."""


def guidance(
    guided_ddpm: type[Model[Any]],
    mlp: type[Model[Any]],
    *,
    data: str = "digits",
    weights: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0),
    steps: int = 1200,
    seed: int = 0,
) -> Finding:
    r"""Classifier-free guidance by its weight: the confidence of a classifier in the samples, and their diversity.

    .. math:: \hat\varepsilon_w(x_t, t, y) = (1 + w) \, \hat\varepsilon(x_t, t, y) - w \, \hat\varepsilon(x_t, t)

    A class-conditional diffusion model is trained once and draws as many samples of each class as the test data have
    (up to 1000 in all), with one guidance weight w after another, always from the same noise. A classifier that was
    trained on the same data, without the model, predicts how often, and with which probability, a sample is of the
    class on which it was conditioned. Coverage is the share of test examples that have a sample among their neighbors,
    nearer than their fifth nearest other test example.

    References:
        | Classifier-Free Diffusion Guidance (Ho and Salimans, 2022), https://arxiv.org/abs/2207.12598
        | Reliable Fidelity and Diversity Metrics for Generative Models (Naeem et al., 2020),
          https://arxiv.org/abs/2002.09797

    Arguments:
        guided_ddpm: The diffusion model.
        mlp: The classifier.
        data: The data set, of images with classes.
        weights: The guidance weights; 0 is the conditional model as it was learned.
        steps: The training steps of the diffusion model.
        seed: The seed of all draws.
    """
    loaded = load_data(data)
    if loaded.kind != "images" or "classes" not in loaded.sizes:
        raise UsageError(f"guidance is studied on images with classes; {data} gives {loaded.train.noun}")
    if not weights:
        raise UsageError("weights names one guidance weight or more, as 0,1,4")
    model = trained(guided_ddpm, loaded, seed, steps=steps)
    classifier = trained(mlp, loaded, seed)
    test = loaded.split("test")
    yardstick = Yardstick.of(loaded.train.x, test.x)
    if yardstick is None:
        raise UsageError(
            f"{data} has only {counted(len(test), 'test example')}, too few to see how much of them is covered"
        )
    labels = test.y[: len(yardstick.held_out)]
    drawn = [_drawn(model, labels, weight, seed) for weight in weights]
    real = _measured(classifier, yardstick, test.x, test.y) | {"coverage": _of_training_data(yardstick)}
    each = [int((labels == c).int().argmax()) for c in labels.unique().tolist()][:SHOWN]
    settings = (
        f"{data}; one diffusion model, trained by {counted(steps, 'step')}, sampled by DDIM in {DDIM_STEPS} steps with "
        f"weights {weights[0]:g} to {weights[-1]:g} from the same noise; one classifier; {CONFIDENCE:.0%} intervals "
        "over the samples, not over trainings"
    )
    numbers = {
        "settings": settings, "data": data, "samples": len(labels), "weights": list(weights),
        "shape": list(loaded.shape), "images": [[_rounded(image) for image in x[each]] for x in drawn],
        "rows": [_measured(classifier, yardstick, x.reshape(-1, *loaded.shape), labels) for x in drawn], "real": real,
    }  # fmt: skip
    return concluded(numbers, sentences, draw)


def _drawn(model: Any, labels: Tensor, weight: float, seed: int) -> Tensor:
    samples: Tensor = model.given(labels, weight).ddim(len(labels), DDIM_STEPS, generator=Generator().manual_seed(seed))
    return samples


def _measured(classifier: Any, yardstick: Yardstick, x: Tensor, labels: Tensor) -> dict[str, float]:
    with torch.no_grad():
        probabilities = classifier.predict(x, how="mean").double()
    own = probabilities.gather(1, labels.unsqueeze(1))
    distances = torch.cdist(x.double().flatten(1), yardstick.held_out.double())
    return {
        "right": float((probabilities.argmax(1) == labels).double().mean()),
        "probability": float(own.mean()),
        "coverage": coverage(distances, yardstick.radii),
    }


def _of_training_data(yardstick: Yardstick) -> float:
    """The coverage that as many training examples have: about the best that samples can reach."""
    some = yardstick.train[:: max(1, len(yardstick.train) // len(yardstick.held_out))][: len(yardstick.held_out)]
    return coverage(torch.cdist(some.double(), yardstick.held_out.double()), yardstick.radii)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """What guidance does to the classifier's confidence and to the diversity, as far as so many samples can tell."""
    rows, weights, real = numbers["rows"], numbers["weights"], numbers["real"]
    sure, wide = (_change(rows[0][key], rows[-1][key], numbers["samples"]) for key in ("right", "coverage"))
    return (
        f"With guidance {weights[-1]:g} in place of {weights[0]:g}, samples of the given class are {sure}, and test "
        f"examples that samples cover {wide}.",
        f"Of {counted(numbers['samples'], 'sample')} with w = {weights[0]:g} the classifier predicts "
        f"{rows[0]['right']:.1%} as the given class, with w = {weights[-1]:g} {rows[-1]['right']:.1%}; of real test "
        f"examples it predicts {real['right']:.1%} right.",
        f"The mean probability of that class goes from {rows[0]['probability']:.3f} to {rows[-1]['probability']:.3f} "
        f"({real['probability']:.3f} for real ones).",
        f"Coverage goes from {rows[0]['coverage']:.1%} of the test examples to {rows[-1]['coverage']:.1%}; as many "
        f"training examples cover {real['coverage']:.1%}.",
    )


def _rounded(image: Tensor) -> list[float]:
    return [round(value, 3) for value in image.flatten().tolist()]


def _change(before: float, after: float, count: int) -> str:
    """How much larger a share of so many is, in words; inside the noise of two binomial shares there is no answer."""
    width = Z * math.sqrt((before * (1 - before) + after * (1 - after)) / count)
    if abs(after - before) <= width:
        return f"as many as can be told, {after:.1%} for {before:.1%}"
    return f"{abs(after - before):.1%} ± {width:.1%} {'more' if after > before else 'fewer'}"


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Confidence and coverage by the guidance weight, and some of the samples."""
    figure = new_figure(11, 4.8)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    weights, rows, real = numbers["weights"], numbers["rows"], numbers["real"]
    for color, name, words in (
        (PALETTE[0], "probability", "probability of the given class"),
        (PALETTE[1], "coverage", "coverage of the test data"),
    ):
        left.plot(weights, [row[name] for row in rows], "o-", color=color, markersize=4, label=words)
        left.axhline(real[name], color=color, linewidth=1, linestyle="--")
    left.plot([], [], color=MUTED, linewidth=1, linestyle="--", label="the same of real examples")
    left.set_ylim(top=1.02)
    dress(left, f"{counted(numbers['samples'], 'sample')} of {numbers['data']}", "guidance weight w", "share")
    legend(left).set_loc("lower left")
    images = torch.tensor(numbers["images"])  # (weights, classes, pixels)
    draw_images(right, images.flatten(0, 1), numbers["shape"], images.shape[1])
    high = (right.get_ylim()[0] + right.get_ylim()[1]) / len(weights)  # the height of a row of images
    dress(right, "Each column starts at one noise; rows are guidance weights", grid=False)
    right.set_yticks([(i + 0.5) * high for i in range(len(weights))], [f"w = {weight:g}" for weight in weights])
    right.tick_params(length=0)
    return figure

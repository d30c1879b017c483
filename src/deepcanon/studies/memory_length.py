"""Memory length: over how many steps recurrent networks learn to remember."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import LabeledSequences, Model
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import Dataset, load_data
from deepcanon.insights.gradient_through_time import products, read
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, interval
from deepcanon.train import fit
from deepcanon.train.randomness import kept, seed_torch

RATES = (0.001, 0.003, 0.01)
"""The learning rates, of which each kind of network has at each delay the best one on validation data."""

OTHER = 1000
"""Added to the seed of the trainings that the learning rate is chosen by."""

LINEAR = {"0.8": 0.8, "0.9": 0.9, "0.97": 0.97}
"""The spectral radii of linear networks whose gradients are measured."""

BACK = 60
"""How many steps back gradients are followed."""


def memory_length(
    rnn_predictor: type[Model[Any]],
    gru_predictor: type[Model[Any]],
    lstm_predictor: type[Model[Any]],
    *,
    delays: tuple[int, ...] = (5, 10, 20, 60),
    units: int = 32,
    steps: int = 250,
    seeds: int = 3,
    seed: int = 0,
) -> Finding:
    r"""Delayed recall by plain, gated and LSTM networks, and the gradient through time that limits it.

    The networks learn to name the first token of a sequence at its end, with fillers in between (``recall``): one of
    eight is right at random. Networks without gates have tanh and an orthogonal initial matrix, or ReLU and the
    identity. The memory length of a kind is the longest delay at which it is right more often than halfway between
    chance and always, on average over the seeds.

    What is learned over k steps depends on the gradient that goes back through them. Of a linear network it is

    .. math:: \frac{\partial h_t}{\partial h_{t-k}} = U^k, \qquad
              \frac1k \log \lVert U^k \rVert \to \log \rho(U)

    so that the slope of its logarithm is that of the spectral radius, which is measured here on random matrices.

    References:
        | Learning long-term dependencies with gradient descent is difficult (Bengio et al., 1994),
          https://doi.org/10.1109/72.279181
        | Long Short-Term Memory (Hochreiter and Schmidhuber, 1997), https://doi.org/10.1162/neco.1997.9.8.1735

    Arguments:
        rnn_predictor: The class of networks without gates.
        gru_predictor: The class of gated recurrent units.
        lstm_predictor: The class of long short-term memories.
        delays: The numbers of steps from that token to the question.
        units: The number of units.
        steps: The steps of each training.
        seeds: From how many initial weights each is trained.
        seed: The seed of the random numbers.
    """
    at_least(1, delays=min(delays, default=0), units=units, steps=steps)
    at_least(2, seeds=seeds)
    kinds: dict[str, Callable[..., Model[Any]]] = {
        "tanh": partial(rnn_predictor, nonlinearity="tanh"),
        "relu": partial(rnn_predictor, nonlinearity="relu"),
        "gru": gru_predictor,
        "lstm": lstm_predictor,
    }
    delays = tuple(sorted(delays))
    loaded = {delay: load_data(f"recall:length={delay + 1}") for delay in delays}
    easy = loaded[delays[0]]
    results: dict[str, Any] = {}
    with kept():
        for name, make in kinds.items():
            rates = [_best_rate(make, data, units, steps, seed + OTHER) for data in loaded.values()]
            accuracies = [
                [_trained(make, data, units, steps, rate, seed + i)["test"]["accuracy"] for i in range(seeds)]
                for data, rate in zip(loaded.values(), rates, strict=True)
            ]
            results[name] = {
                "rates": rates,
                "accuracy": accuracies,
                "gradient": _gradient(_built(make, easy, units, seed), loaded[delays[-1]].train),
            }
        linear = {name: _linear(rnn_predictor, radius, seed) for name, radius in LINEAR.items()}
    settings = (
        f"{easy.name.partition(':')[0]} with delays of {delays[0]} to {delays[-1]} steps; {counted(units, 'unit')}, "
        f"{counted(steps, 'step')} of Adam at the best rate of {RATES[0]:g} to {RATES[-1]:g} for each; "
        f"accuracies are means over {counted(seeds, 'seed')} with {CERTAIN}"
    )
    numbers = {
        "settings": settings,
        "delays": list(delays),
        "chance": 1 / easy.sizes["classes"],
        "kinds": results,
        "linear": linear,
    }
    return concluded(numbers, sentences, draw)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The memory length of each kind, what each recalls at the longest delay, and the slopes of linear networks."""
    delays, longest = numbers["delays"], numbers["delays"][-1]
    lengths = {name: _memory(numbers, name) for name in numbers["kinds"]}
    written = ", ".join(
        f"{name} {'below ' + str(delays[0]) if length is None else length}{' or more' if length == longest else ''}"
        for name, length in lengths.items()
    )
    at_end = ", ".join(
        f"{name} {middle:.0%} ± {width:.0%}"
        for name, result in numbers["kinds"].items()
        for middle, width in [interval(result["accuracy"][-1])]
    )
    worst = max(abs(each["slope"] - math.log(each["radius"])) for each in numbers["linear"].values())
    slopes = ", ".join(f"{each['slope']:.4f} for log {each['radius']:g}" for each in numbers["linear"].values())
    return (
        f"Steps over which a token is remembered: {written}.",
        f"Right after {counted(longest, 'step')}: {at_end}; at random {numbers['chance']:.1%}.",
        f"Slopes of log gradients of linear networks: {slopes} of the spectral radius, off by {worst:.1g} at most.",
    )


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Recall by delay, gradients before training, and gradients of linear networks with their theory."""
    figure = new_figure(12.6, 4.3)
    recall, before, linear = figure.subplots(1, 3)
    for (name, result), color in zip(numbers["kinds"].items(), PALETTE, strict=False):
        means, widths = zip(*(interval(values) for values in result["accuracy"]), strict=True)
        recall.errorbar(numbers["delays"], means, widths, fmt="-o", capsize=3, color=color, markersize=5,
                        label=name)  # fmt: skip
        _decay(before, result["gradient"], color, name)
    recall.axhline(numbers["chance"], color=MUTED, linewidth=0.8, linestyle="--", label="at random")
    recall.set_xscale("log")
    recall.set_xticks(numbers["delays"], [str(delay) for delay in numbers["delays"]])
    recall.minorticks_off()
    recall.set_ylim(0, 1.08)
    _finish(recall, "Recall by delay", "steps to remember", "accuracy on test data")
    before.set_yscale("log")
    _finish(before, "Gradients before training", "steps back k", "norm of ∂s(t)/∂s(t-k)")
    for each, color in zip(numbers["linear"].values(), PALETTE, strict=False):
        norms = each["norms"]
        _decay(linear, norms, color, f"radius {each['radius']:g}, slope {each['slope']:.3f}")
        end = len(norms) - 1
        linear.plot(range(end + 1), [norms[-1] * each["radius"] ** (k - end) for k in range(end + 1)], "--", color=INK,
                    linewidth=0.9)  # fmt: skip
    linear.set_yscale("log")
    _finish(linear, "Linear networks, and the radius to the k", "steps back k", "norm of the matrix to the k")
    return figure


def _memory(numbers: Mapping[str, Any], name: str) -> int | None:
    """The longest delay up to which a kind is right more often than halfway between chance and always."""
    halfway = (1 + numbers["chance"]) / 2
    reached = None
    for delay, values in zip(numbers["delays"], numbers["kinds"][name]["accuracy"], strict=True):
        if fmean(values) <= halfway:
            break
        reached = delay
    return reached


def _built(make: Callable[..., Model[Any]], data: Dataset[Any], units: int, seed: int) -> Model[Any]:
    seed_torch(seed)
    return make(vocab=data.sizes["vocab"], classes=data.sizes["classes"], embedding=units, units=units)


def _best_rate(make: Callable[..., Model[Any]], data: Dataset[Any], units: int, steps: int, seed: int) -> float:
    """The learning rate with the lowest validation loss, from weights that are not among those measured."""
    losses = {rate: _trained(make, data, units, steps, rate, seed)["valid"]["nll"] for rate in RATES}
    return min(losses, key=losses.__getitem__)


def _trained(
    make: Callable[..., Model[Any]], data: Dataset[Any], units: int, steps: int, lr: float, seed: int
) -> dict[str, dict[str, float]]:
    """What a trained network measures on the validation and the test split."""
    result = fit(_built(make, data, units, seed), data, quiet=True, steps=steps, lr=lr, seed=seed)
    return {"valid": result.valid, "test": result.test}


def _gradient(model: Model[Any], batch: LabeledSequences) -> list[float]:
    """The geometric mean over some sequences of the norms of the products of Jacobians, from 0 steps back on."""
    return _norms(products(read(model, batch.select(torch.arange(4))), BACK))


def _linear(cls: type[Model[Any]], radius: float, seed: int) -> dict[str, Any]:
    """The gradient of a linear network with a random matrix of this spectral radius, and its slope."""
    seed_torch(seed)
    model: Any = cls(features=1, targets=1, units=16, nonlinearity="identity").double()
    weight = torch.randn(16, 16, dtype=torch.float64)
    model.recurrent.weight_hh_l0.data.copy_(weight * radius / torch.linalg.eigvals(weight).abs().max())
    x = torch.zeros(1, BACK + 1, 1, dtype=torch.float64)
    batch = LabeledSequences(x, torch.zeros(1, 1, dtype=torch.float64), torch.tensor([BACK + 1]))
    norms = _norms(products(read(model, batch), BACK))
    half = BACK // 2  # the first steps also depend on how far the matrix is from a normal one
    return {"radius": radius, "norms": norms, "slope": math.log(norms[-1] / norms[half]) / (BACK - half)}


def _norms(found: list[Tensor]) -> list[float]:
    logs = [torch.linalg.matrix_norm(each, 2).clamp_min(1e-300).log().mean() for each in found]
    return torch.stack(logs).exp().tolist()


def _decay(axes: Axes, norms: list[float], color: str, label: str) -> None:
    axes.plot(range(len(norms)), norms, color=color, label=label)


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    dress(axes, title, x, y)
    legend(axes)

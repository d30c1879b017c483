"""Anomalies: finding strange time series by their likelihood."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.core import Model, Series
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.optim import optimizer
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, interval
from deepcanon.train.randomness import kept, seed_torch
from deepcanon.train.scores import areas

MEMORY = 0.8
"""The coefficient of the autoregression of order 1 that the series are drawn from."""

GIVEN = 20
"""The first steps, which are given."""

BATCH = 32
"""The number of series in a step of training."""

TRUTH, ALONE = "closed form", "values alone"


def anomalies(
    autoregression: type[Model[Any]],
    deepar: type[Model[Any]],
    *,
    series: int = 400,
    length: int = 80,
    window: int = 15,
    steps: int = 300,
    seeds: int = 3,
    seed: int = 0,
) -> Finding:
    r"""Planted anomalies found by the likelihood of a sequence, next to that of the process they disturb.

    Series are drawn from an autoregression of order 1. In half of the test series the steps of one window are put
    into a random order: every value is as likely as before, and only the order is strange. So a density of the values
    alone finds nothing, and what can be found at best is what the closed form finds,

    .. math:: -\log p(z) = \sum_t \frac{(z_t - \varphi z_{t-1})^2}{2} + \frac12 \log 2\pi, \qquad z_t - \varphi z_{t-1}
              \sim N(0, 1)

    Models learn from undisturbed series, and a test series is an anomaly where its negative log-likelihood is high. The
    area under the ROC curve is the probability that a disturbed series has a higher one than an undisturbed.

    References:
        | Anomaly detection: a survey (Chandola et al., 2009), https://doi.org/10.1145/1541880.1541882

    Arguments:
        autoregression: The class of autoregressions, of order 4 here.
        deepar: The class of recurrent networks.
        series: The number of series to learn from, and of the test.
        length: The number of steps of a series.
        window: The number of steps that are put into another order.
        steps: The steps of each training.
        seeds: How often data and initial weights are drawn.
        seed: The seed of the random numbers.
    """
    at_least(8, series=series)
    at_least(2, window=window, seeds=seeds)
    at_least(GIVEN + window + 1, length=length)
    at_least(1, steps=steps)
    found: dict[str, list[float]] = {}
    inside: dict[str, list[float]] = {}
    shown: dict[str, Any] = {}
    with kept():
        for number in range(seed, seed + seeds):
            random = Generator().manual_seed(number)
            train, test = (_drawn(series, length, random) for _ in range(2))
            strange, disturbed = _disturbed(test, window, random)
            surprise = {TRUTH: _closed_form(test), ALONE: _alone(test)}
            for name, cls, rate, sizes in (
                ("autoregression", autoregression, 0.05, {"order": 4, "scaled": False}),
                ("deepar", deepar, 0.01, {"units": 16, "layers": 1}),
            ):
                seed_torch(number)
                model: Any = cls(features=1, head="gaussian", **sizes)
                _learn(model, train, steps, rate, random)
                with torch.no_grad():
                    surprise[name] = -model.eval().step_log_probs(test)
            for name, nats in surprise.items():
                area = areas(nats.sum(1).double().numpy(), strange.numpy())[0]
                found.setdefault(name, []).append(area)
                inside.setdefault(name, []).append(_difference(nats[strange], disturbed[strange]))
            if not shown:
                row = int(strange.nonzero()[0])
                shown = {
                    "values": test.x[row, :, 0].tolist(),
                    "window": disturbed[row].nonzero().flatten()[[0, -1]].tolist(),
                    "nats": {name: surprise[name][row, GIVEN:].tolist() for name in (TRUTH, "deepar")},
                    "curves": {name: _roc(nats.sum(1), strange) for name, nats in surprise.items()},
                }
    settings = (
        f"AR(1) with {MEMORY:g}; {series} series of {length} steps to train and to test, there half of them "
        f"with {counted(window, 'step')} in another order; {counted(steps, 'step')} of Adam; means over "
        f"{counted(seeds, 'seed')} with {CERTAIN}"
    )
    numbers = {"settings": settings, "window": window, "areas": found, "inside": inside, "shown": shown}
    return concluded(numbers, sentences, draw)


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The areas under the ROC curve, how far networks are from the closed form, and where the surprise is."""
    areas_of = numbers["areas"]
    listed = ", ".join(f"{name} {_interval(values)}" for name, values in areas_of.items())
    return (
        f"Area under the ROC curve: {listed}.",
        *(_behind(name, areas_of) for name in areas_of if name not in (TRUTH, ALONE)),
        "A step inside the planted window costs more than one outside by "
        + ", ".join(f"{_interval(values)} nats ({name})" for name, values in numbers["inside"].items())
        + ".",
    )


def draw(numbers: Mapping[str, Any]) -> Figure:
    """A disturbed series with its surprise by step, and the ROC curves."""
    figure = new_figure(12.6, 4.4)
    grid = figure.add_gridspec(2, 2, width_ratios=(1.7, 1))
    values, surprise, curves = (figure.add_subplot(each) for each in (grid[0, 0], grid[1, 0], grid[:, 1]))
    shown = numbers["shown"]
    first, last = shown["window"]
    for axes in (values, surprise):
        axes.axvspan(first - 0.5, last + 0.5, color=PALETTE[1], alpha=0.15, linewidth=0)
        axes.set_xlim(-1, len(shown["values"]))
    values.plot(shown["values"], color=INK, linewidth=1.2)
    dress(values, "A series in which the steps of one window are in another order", "", "value")
    for (name, nats), color in zip(shown["nats"].items(), PALETTE[::2], strict=False):
        begin = len(shown["values"]) - len(nats)
        surprise.plot(range(begin, len(shown["values"])), nats, color=color, linewidth=1.2, label=name)
    _finish(surprise, "What each step costs", "step", "nats")
    for (name, curve), color in zip(shown["curves"].items(), (INK, MUTED, *PALETTE), strict=False):
        curves.plot(*curve, color=color, label=f"{name}: {_interval(numbers['areas'][name])}")
    curves.set_xlim(0, 1)
    curves.set_ylim(0, 1.02)
    _finish(curves, "ROC curves of the first seed, areas of all", "false positives", "true positives")
    return figure


def _learn(model: Model[Any], train: Series, steps: int, rate: float, random: Generator) -> None:
    """Steps of Adam with a rate that falls to zero along a cosine."""
    descent = optimizer("adam", list(model.parameters()), rate)
    for step in range(steps):
        descent.param_groups[0]["lr"] = rate * (1 + math.cos(math.pi * step / steps)) / 2
        loss = model.loss(train.select(torch.randint(len(train), (BATCH,), generator=random)))["nll"]
        descent.zero_grad()
        loss.backward()
        descent.step()


def _drawn(series: int, length: int, random: Generator) -> Series:
    """Stationary series of the process."""
    noise = torch.randn(series, length, generator=random)
    values = [noise[:, 0] / math.sqrt(1 - MEMORY**2)]
    for step in range(1, length):
        values.append(MEMORY * values[-1] + noise[:, step])
    full = torch.full((series,), length)
    return Series(torch.stack(values, 1).unsqueeze(2), full, torch.full_like(full, GIVEN))


def _disturbed(test: Series, window: int, random: Generator) -> tuple[Tensor, Tensor]:
    """Put a window of every other series into a random order; which series these are, (B,), and which steps, (B, T)."""
    rows, length = test.x.shape[:2]
    strange = torch.arange(rows) % 2 == 1
    steps = torch.zeros(rows, length, dtype=torch.bool)
    for row in strange.nonzero().flatten().tolist():
        first = int(torch.randint(GIVEN, length - window + 1, (1,), generator=random))
        order = torch.randperm(window, generator=random)
        test.x[row, first : first + window] = test.x[row, first : first + window][order]
        steps[row, first : first + window] = True
    return strange, steps


def _closed_form(test: Series) -> Tensor:
    """What each step costs by the process itself, in nats; zero where it is given."""
    z = test.x[..., 0]
    nats = 0.5 * (z[:, 1:] - MEMORY * z[:, :-1]).square() + 0.5 * math.log(2 * math.pi)
    return torch.nn.functional.pad(nats[:, GIVEN - 1 :], (GIVEN, 0))


def _alone(test: Series) -> Tensor:
    """What each step costs by its stationary distribution, whatever was before; zero where it is given."""
    nats = -torch.distributions.Normal(0.0, 1 / math.sqrt(1 - MEMORY**2)).log_prob(test.x[..., 0])
    return torch.nn.functional.pad(nats[:, GIVEN:], (GIVEN, 0))


def _difference(nats: Tensor, disturbed: Tensor) -> float:
    """How much more a disturbed step costs than another one of the same series."""
    predicted = torch.arange(nats.shape[1]) >= GIVEN
    return float(nats[disturbed].mean() - nats[~disturbed & predicted].mean())


def _roc(score: Tensor, positive: Tensor) -> list[list[float]]:
    """False and true positive rates, from the most suspicious series on."""
    order = score.argsort(descending=True)
    rates = [np.concatenate([[0.0], np.cumsum(found) / found.sum()]) for found in
             ((~positive)[order].double().numpy(), positive[order].double().numpy())]  # fmt: skip
    return [rate.tolist() for rate in rates]


def _behind(name: str, areas_of: Mapping[str, list[float]]) -> str:
    apart, width = interval([best - own for best, own in zip(areas_of[TRUTH], areas_of[name], strict=True)])
    if abs(apart) <= width:
        return f"{name} cannot be told from the closed form: behind by {apart:.3f} ± {width:.3f}."
    return f"{name} is {'behind' if apart > 0 else 'ahead of'} the closed form by {abs(apart):.3f} ± {width:.3f}."


def _interval(values: list[float]) -> str:
    middle, width = interval(values)
    return f"{middle:.3f} ± {width:.3f}"


def _finish(axes: Axes, title: str, x: str, y: str) -> None:
    dress(axes, title, x, y)
    legend(axes)

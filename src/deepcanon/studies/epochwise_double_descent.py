"""Double descent by epochs: test errors that fall, rise and fall again during one training."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.core import UsageError, drawing_from
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.nn.dense import dense
from deepcanon.pictures.style import INK, MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, interval

EXAMPLES = 100
GROUPS = {"fast": (60, 1.0, 0.01), "slow": (6, 0.1, 0.1)}
"""Of each group of features: how many, their standard deviation, and the variance of y that each explains."""
RATE = 0.1
BATCH, LR = 50, 1e-3
CLEAR = 0.1
"""A second descent of a smaller share of the rise before it does not count."""


def epochwise_double_descent(
    *,
    data: str = "digits",
    noise: float = 1.0,
    steps: int = 4000,
    draws: int = 50,
    training: int = 400,
    wrong: float = 0.2,
    hidden: int = 256,
    epochs: int = 200,
    seeds: int = 3,
    seed: int = 0,
) -> Finding:
    r"""Double descent by epochs, in linear regression with its exact risk and in a network with wrong labels.

    In least squares by gradient descent with n orthogonal examples, feature i of standard deviation :math:`s_i` is
    learned with the factor :math:`q_i = 1 - \eta s_i^2`. The expected test error after t steps is exactly

    .. math:: R_t = \sigma^2 + \sum_i \Bigl( s_i^2 \theta_i^2\, q_i^{2t} + \frac{\sigma^2}{n} (1 - q_i^t)^2 \Bigr)

    For each feature it falls and then rises, as its noise is learned after its signal. If many features are learned
    fast and have much noise, and a few are learned late and have much signal, the sum falls, rises and falls again.
    Whether a network of two hidden layers does so, of whose labels some are wrong, is measured: it may not be seen.

    References:
        | Deep double descent: where bigger models and more data hurt (Nakkiran et al., 2020),
          https://arxiv.org/abs/1912.02292
        | Early stopping in deep networks: double descent and how to eliminate it (Heckel and Yilmaz, 2021),
          https://arxiv.org/abs/2007.10099

    Arguments:
        data: The data set by name; its examples have classes.
        noise: The standard deviation of the noise on the targets of the regression.
        steps: The steps of its gradient descent.
        draws: How often its noise is drawn.
        training: The training examples of the network.
        wrong: The share of them that gets a random label.
        hidden: The units of each of its two hidden layers.
        epochs: How often its training goes through them.
        seeds: From how many seeds it is trained, each with examples and labels of its own.
        seed: The seed of the random numbers.
    """
    at_least(2, steps=steps, draws=draws, epochs=epochs, seeds=seeds)
    at_least(1, training=training, hidden=hidden)
    generator = Generator().manual_seed(seed)
    times = spread(steps)
    risks = [risk.tolist() for risk in measured(times, noise, draws, generator)]
    marks = spread(epochs)
    nets = [network(data, training, wrong, hidden, marks, 1000 * seed + each) for each in range(seeds)]
    numbers = {
        "settings": f"Regression: {EXAMPLES} examples, noise {noise:g}, {counted(steps, 'step')} at the rate {RATE:g}, "
        f"{counted(draws, 'draw')}. Network: {data}, {counted(training, 'example')} of which {wrong:g} get random "
        f"labels, two layers of {counted(hidden, 'unit')}, {counted(epochs, 'epoch')} of Adam, "
        f"{counted(seeds, 'seed')}; {CERTAIN}",
        "times": times,
        "theory": expected(times, noise),
        "risks": risks,
        "epochs": marks,
        "test_errors": [found["test"] for found in nets],
        "training_errors": [found["training"] for found in nets],
    }
    return concluded(numbers, sentences, draw)


def spread(last: int) -> list[int]:
    """Whole numbers from 1 to the last one, at even distances on a logarithmic scale.

    >>> spread(10)
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    """
    return sorted({max(1, round(last ** (k / 59))) for k in range(60)} | {last})


def expected(times: list[int], noise: float) -> list[float]:
    """The expected test error after so many steps."""
    total = torch.full((len(times),), noise**2, dtype=torch.float64)
    for count, scale, signal in GROUPS.values():
        left = torch.tensor([(1 - RATE * scale**2) ** t for t in times], dtype=torch.float64)
        total += count * (signal * left**2 + noise**2 / EXAMPLES * (1 - left) ** 2)
    found: list[float] = total.tolist()
    return found


def measured(times: list[int], noise: float, draws: int, generator: Generator) -> Tensor:
    """The test error along a gradient descent for each draw of the noise, (draws, times)."""
    scales = torch.cat([torch.full((count,), scale, dtype=torch.float64) for count, scale, _ in GROUPS.values()])
    signals = torch.cat([torch.full((count,), signal, dtype=torch.float64) for count, _, signal in GROUPS.values()])
    drawn = torch.randn(EXAMPLES, len(scales), generator=generator, dtype=torch.float64)
    x = torch.linalg.qr(drawn)[0] * EXAMPLES**0.5 * scales  # so that X'X / n is diagonal
    truth = (signals.sqrt() / scales)[:, None]
    y = x @ truth + noise * torch.randn(EXAMPLES, draws, generator=generator, dtype=torch.float64)
    weights, found = torch.zeros(len(scales), draws, dtype=torch.float64), []
    second, cross = x.T @ x / EXAMPLES, x.T @ y / EXAMPLES
    for step in range(1, times[-1] + 1):
        weights = weights - RATE * (second @ weights - cross)
        if step in times:
            found.append(((weights - truth) * scales[:, None]).square().sum(0) + noise**2)
    return torch.stack(found, 1)


def network(data: str, training: int, wrong: float, hidden: int, marks: list[int], seed: int) -> dict[str, list[float]]:
    """The shares of wrong classes on test and on training data after so many epochs."""
    loaded = load_data(data)
    held_out = loaded.test
    if held_out is None:
        raise UsageError(f"{data} has no test data, whose error is what is measured")
    generator = Generator().manual_seed(seed)
    rows = torch.randperm(len(loaded.train), generator=generator)[:training]
    x, y = loaded.train.x[rows].flatten(1), loaded.train.y[rows].clone()
    changed = torch.rand(len(y), generator=generator) < wrong
    y[changed] = torch.randint(loaded.sizes["classes"], (int(changed.sum()),), generator=generator)
    found: dict[str, list[float]] = {"test": [], "training": []}
    with drawing_from(Generator().manual_seed(seed)), torch.enable_grad():
        net = dense(x.shape[1], loaded.sizes["classes"], (hidden, hidden))
        optimizer = torch.optim.Adam(net.parameters(), LR)
        for epoch in range(1, marks[-1] + 1):
            for part in torch.randperm(len(x)).split(BATCH):
                optimizer.zero_grad()
                F.cross_entropy(net(x[part]), y[part]).backward()
                optimizer.step()
            if epoch in marks:
                found["test"].append(_errors(net, held_out.x.flatten(1), held_out.y))
                found["training"].append(_errors(net, x, y))
    return found


@torch.no_grad()
def _errors(net: Any, x: Tensor, y: Tensor) -> float:
    return float((net(x).argmax(1) != y).double().mean())


def turns(curves: list[list[float]]) -> dict[str, Any]:
    """The lowest place before the highest later one in the mean of curves, and the rise and the fall in each curve.

    A curve falls to the mean of its last two values.

    >>> found = turns([[3.0, 1.0, 2.0, 0.5, 0.5], [3.0, 1.0, 2.2, 0.7, 0.7]])
    >>> found["low"], found["high"], [round(rise, 1) for rise in found["rise"]], [round(x, 1) for x in found["fall"]]
    (1, 2, [1.0, 1.2], [1.5, 1.5])
    """
    means = [fmean(values) for values in zip(*curves, strict=True)]
    # The largest rise between two places: the lowest mean so far, and a later one above it.
    low = high = lowest = 0
    for place, value in enumerate(means):
        lowest = place if value < means[lowest] else lowest
        if value - means[lowest] > means[high] - means[low]:
            low, high = lowest, place
    return {
        "low": low,
        "high": high,
        "rise": [curve[high] - curve[low] for curve in curves],
        "fall": [curve[high] - min(fmean(curve[-2:]), curve[high]) for curve in curves],
    }


def verdict(curves: list[list[float]]) -> str:
    """Whether the curves fall, rise and fall again, in words."""
    found = turns(curves)
    (rise, apart), (fall, width) = interval(found["rise"]), interval(found["fall"])
    if rise <= apart:
        return f"there is no rise to be told from chance ({rise:.3f} ± {apart:.3f})"
    if fall <= width or fall < CLEAR * rise:
        return f"it rises by {rise:.3f} ± {apart:.3f}, and a second descent was not seen ({fall:.3f} ± {width:.3f})"
    return f"it rises by {rise:.3f} ± {apart:.3f} and falls again by {fall:.3f} ± {width:.3f}: double descent"


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """Whether double descent by epochs was seen, and where."""
    theory, risks, errors = numbers["theory"], numbers["risks"], numbers["test_errors"]
    exact = turns([theory])
    worst = max(
        abs(fmean(values) - wanted) / max(interval(list(values))[1], 1e-300)
        for values, wanted in zip(zip(*risks, strict=True), theory, strict=True)
    )
    low, high = (f"{theory[exact[name]]:.3f} at step {numbers['times'][exact[name]]}" for name in ("low", "high"))
    return (
        f"Test error by epochs. Regression: {verdict(risks)}. Network: {verdict(errors)}.",
        f"By theory the error of the regression is {low}, {high} and {theory[-1]:.3f} in the end; the means over draws "
        f"are at most {worst:.2f} confidence intervals away.",
        *(_told(f"Network, seed {i}", numbers["epochs"], curve) for i, curve in enumerate(errors)),
    )


def _told(name: str, epochs: list[int], curve: list[float]) -> str:
    first = curve.index(min(curve))
    return (
        f"{name}: the error is lowest after {epochs[first]} epochs, {curve[first]:.3f}, at most "
        f"{max(curve[first:]):.3f} later, and {curve[-1]:.3f} in the end."
    )


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The test errors of the regression and of the network, every draw and every seed."""
    figure = new_figure(11.5, 4.6)
    left, right = figure.subplots(1, 2)
    for risk in numbers["risks"]:
        left.plot(numbers["times"], risk, color=PALETTE[0], linewidth=0.5, alpha=0.25)
    _mean(left, numbers["times"], numbers["risks"], PALETTE[0], "mean over draws")
    left.plot(numbers["times"], numbers["theory"], "--", color=INK, linewidth=1.2, label="theory")
    dress(left, "Linear regression: every draw", "step", "expected test error")
    for name, color in (("test_errors", PALETTE[1]), ("training_errors", MUTED)):
        for curve in numbers[name]:
            right.plot(numbers["epochs"], curve, color=color, linewidth=0.7, alpha=0.6)
        _mean(right, numbers["epochs"], numbers[name], color, f"{name.split('_')[0]}, mean over seeds")
    dress(right, "Network with wrong labels: every seed", "epoch", "share of wrong classes")
    for axes in (left, right):
        axes.set_xscale("log")
        legend(axes)
    return figure


def _mean(axes: Axes, places: list[int], curves: list[list[float]], color: str, label: str) -> None:
    axes.plot(places, [fmean(values) for values in zip(*curves, strict=True)], color=color, linewidth=2, label=label)

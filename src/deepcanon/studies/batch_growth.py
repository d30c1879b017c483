"""Increasing the batch size compared with decaying the learning rate: two ways to reduce the gradient noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Generator

from deepcanon.core import Labeled, Model, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import Dataset, load_data
from deepcanon.insights._engines.objective import Objective
from deepcanon.insights._engines.spectrum import hessian_product, lanczos
from deepcanon.pictures.style import INK, MUTED, PALETTE, colors, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.contest import CERTAIN, interval
from deepcanon.train import Trainer, fit
from deepcanon.train.evaluation import evaluate
from deepcanon.train.observers import Observer
from deepcanon.train.randomness import kept, seed_from, seed_torch

NAMES = {"decay": "the rate decays", "growth": "the batch grows", "neither": "neither"}
"""The trainings that are compared, in words."""
STYLES = {"decay": (PALETTE[0], "-"), "growth": (PALETTE[1], "--"), "neither": (MUTED, "-")}

CURVED = (0.1, 0.2, 0.4, 0.8, 1.2, 1.6)
"""Learning rates times curvature at which SGD on a quadratic function is simulated."""
SMALL = 2
"""The batch size there; only the product of variance and batch size matters."""
VALUES, WALKS, WATCHED = 1000, 5000, 40
"""The size of the data of the quadratic function, the number of SGD runs, and of steps to average their variance."""


def batch_growth(
    mlp: type[Model[Any]],
    *,
    data: str = "digits",
    wrong: float = 0.2,
    hidden: int = 32,
    rates: tuple[float, ...] = (0.1, 0.8),
    first: int = 8,
    factor: int = 4,
    stages: int = 3,
    stage: int = 4,
    seeds: int = 3,
    seed: int = 0,
) -> Finding:
    r"""Increasing the batch size compared with decaying the learning rate: the loss reached and the steps needed.

    The noise scale of SGD with the learning rate :math:`\epsilon` and batches of B of N examples is

    .. math:: g = \epsilon \left(\frac N B - 1\right) \approx \epsilon \frac N B, \qquad B \ll N. \qquad (1)

    A network is trained in stages, after each of which the rate is divided, or the batch size multiplied, by the same
    factor, so that :math:`\epsilon N / B` is the same in every epoch; a third training does neither. All three have the
    same initial weights and the same order of examples, seed by seed. Some labels are wrong, so that the gradients of
    examples keep differing.

    On a quadratic function of curvature h, the mean of :math:`\frac h 2 (\theta - x_i)^2` over numbers of variance
    :math:`\sigma^2`, SGD has a stationary distribution around the minimum with the variance

    .. math:: \operatorname{Var} \theta = \frac{\sigma^2}{B} \cdot \frac{\epsilon h}{2 - \epsilon h}, \qquad (2)

    alike for smaller rates and for larger batches where :math:`\epsilon h` is small, and only there. So the trainings
    are compared at a small rate and at a large one. The :math:`h` of a network is the largest eigenvalue of its Hessian
    at the end.

    References:
        | Don't decay the learning rate, increase the batch size (Smith et al., 2018), https://arxiv.org/abs/1711.00489

    Arguments:
        mlp: The multilayer perceptron of the catalogue.
        data: The data set by name; its examples have classes.
        wrong: The share of the training labels that are replaced by random ones.
        hidden: The width of the hidden layer.
        rates: The rates of the first stage, each for trainings of its own.
        first: The batch size of the first stage.
        factor: What the rate is divided by, or the batch size multiplied with.
        stages: How many stages there are.
        stage: The epochs of a stage.
        seeds: How many networks to draw.
        seed: The seed of all random numbers.
    """
    at_least(1, hidden=hidden, rates=len(rates), first=first, stages=stages, stage=stage)
    at_least(2, factor=factor, seeds=seeds)
    if not 0 <= wrong <= 1:
        raise UsageError(f"wrong is a share of the labels, from 0 to 1 (got {wrong})")
    loaded = mislabeled(load_data(data), wrong, seed)
    largest = first * factor ** (stages - 1)
    if largest > len(loaded.train):
        raise UsageError(
            f"batches would grow to {largest}, but {loaded.name} has {counted(len(loaded.train), 'example')}; take "
            "fewer stages, a smaller factor or smaller first batches"
        )
    ways = {
        "decay": {"schedule": f"staircase:rate={1 / factor},stages={stages}"},
        "growth": {"schedule": "constant", "batch_size_schedule": f"exponential:by={factor},every={stage}"},
        "neither": {"schedule": "constant"},
    }
    common: dict[str, Any] = {"optimizer": "sgd", "batch_size": first, "epochs": stages * stage}

    def network(number: int) -> Model[Any]:
        with kept():
            seed_torch(number)
            return mlp(features=loaded.sizes["features"], classes=loaded.sizes["classes"], hidden=(hidden,))

    def trained(lr: float, way: dict[str, Any]) -> dict[str, Any]:
        numbers = [seed_from(seed, each) for each in range(seeds)]
        diaries = [Diary() for _ in numbers]
        results = [
            fit(network(number), loaded, quiet=True, lr=lr, seed=number, observers=[diary], **common, **way)
            for number, diary in zip(numbers, diaries, strict=True)
        ]
        pairs = list(zip(diaries[0].rates, diaries[0].sizes, strict=True))
        return {
            "rates": diaries[0].rates,
            "sizes": diaries[0].sizes,
            "noise": [noise_scale(rate, size, len(loaded.train)) for rate, size in pairs],
            "steps": diaries[0].steps,
            "losses": [diary.losses for diary in diaries],
            "accuracies": [result.test["accuracy"] for result in results],
            "curvatures": [steepest(result.model, loaded.train) for result in results],
        }

    runs = [{"rate": rate, **{name: trained(rate, way) for name, way in ways.items()}} for rate in rates]
    settings = (
        f"{loaded.name} with {wrong:g} of the labels drawn anew, one hidden layer of {counted(hidden, 'unit')}; SGD "
        f"from rates {rates[0]:g} to {rates[-1]:g} in batches of {first}, {counted(stages, 'stage')} of "
        f"{counted(stage, 'epoch')}, the factor {factor} between them; {counted(seeds, 'seed')}, {CERTAIN} over them"
    )
    numbers = {"settings": settings, "examples": len(loaded.train), "runs": runs, "quadratic": _quadratic(factor, seed)}
    return concluded(numbers, sentences, draw)


def noise_scale(rate: float, size: int, examples: int) -> float:
    """The noise scale of SGD, :math:`\\epsilon N / B`.

    >>> noise_scale(0.1, 10, 1000), noise_scale(0.05, 5, 1000)
    (10.0, 10.0)
    """
    return rate * examples / size


def cloud(step: float, size: int) -> float:
    """The stationary variance (2) of SGD on a quadratic function over that of the data; the step is rate x curvature.

    >>> cloud(1.0, 4), cloud(0.5, 4), cloud(1.0, 8)
    (0.25, 0.08333333333333333, 0.125)
    """
    return step / (2 - step) / size


def measured_cloud(step: float, size: int, generator: Generator) -> float:
    """The same, measured on many SGD runs with batches that are drawn, with replacement, from one data set."""
    numbers = torch.randn(VALUES, generator=generator, dtype=torch.float64)
    numbers -= numbers.mean()
    theta = torch.zeros(WALKS, dtype=torch.float64)
    squares = []
    begin = math.ceil(-5 / math.log(abs(1 - step))) if step != 1 else 1  # the start is forgotten to e^-10
    for done in range(begin + WATCHED):
        drawn = numbers[torch.randint(VALUES, (WALKS, size), generator=generator)]
        theta -= step * (theta - drawn.mean(1))
        if done >= begin:
            squares.append(theta.square().mean())
    return float(torch.stack(squares).mean() / numbers.square().mean())


def mislabeled(loaded: Dataset[Any], wrong: float, seed: int) -> Dataset[Any]:
    """The data with this share of the training labels replaced by random ones, and no validation split."""
    train = loaded.train
    if "classes" not in loaded.sizes or not isinstance(train, Labeled):
        raise UsageError(f"this study needs examples with classes; {loaded.name} has none")
    generator = Generator().manual_seed(seed)
    others = torch.randint(loaded.sizes["classes"], train.y.shape, generator=generator)
    y = torch.where(torch.rand(train.y.shape, generator=generator) < wrong, others, train.y)
    return replace(loaded, train=Labeled(train.x, y), valid=None)


class Diary(Observer):
    """An observer that records after each epoch the rate, the batch size, the steps and the training loss."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self.sizes: list[int] = []
        self.steps: list[int] = []
        self.losses: list[float] = []

    def epoch(self, trainer: Trainer, valid: dict[str, float]) -> None:
        self.rates.append(trainer.lr())
        self.sizes.append(trainer.plan.size(trainer.epoch - 1))
        self.steps.append(trainer.step)
        self.losses.append(evaluate(trainer.model, trainer.data.train)["loss"])


def steepest(model: Model[Any], batch: Labeled) -> float:
    """The largest eigenvalue of the Hessian of the loss."""
    loss = Objective(model, batch)
    return float(lanczos(hessian_product(loss, loss.theta), len(loss.theta), steps=20, like=loss.theta).values[-1])


def _quadratic(factor: int, seed: int) -> dict[str, Any]:
    """The stationary variance for a smaller rate and for a larger batch, by the rate x curvature before."""
    generator = Generator().manual_seed(seed)
    choices = {
        "decay": [(step / factor, SMALL) for step in CURVED],
        "growth": [(step, SMALL * factor) for step in CURVED],
    }
    found = {
        name: {
            "measured": [measured_cloud(step, size, generator) for step, size in pairs],
            "expected": [cloud(step, size) for step, size in pairs],
        }
        for name, pairs in choices.items()
    }
    return {"steps": list(CURVED), "size": SMALL, "factor": factor, **found}


def _means(training: Mapping[str, Any]) -> list[float]:
    """The mean loss over the seeds, epoch by epoch."""
    return [fmean(losses) for losses in zip(*training["losses"], strict=True)]


def _gaps(run: Mapping[str, Any], name: str) -> list[tuple[float, float]]:
    """The difference of the loss from that with decaying rates, paired by seeds: mean and half-interval by epoch."""
    gaps = []
    for own, other in zip(
        zip(*run[name]["losses"], strict=True), zip(*run["decay"]["losses"], strict=True), strict=True
    ):
        apart = [loss - with_decay for loss, with_decay in zip(own, other, strict=True)]
        gaps.append(interval(apart))
    return gaps


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The noise scale, the losses by epoch and by step, a quadratic function, and the differences."""
    runs = numbers["runs"]
    figure = new_figure(13.2, 8.2)
    (noise, small, large), (quadratic, steps, gaps) = figure.subplots(2, 3)
    _draw_noise(noise, runs)
    _draw_losses(small, runs[0], over_steps=False)
    _draw_losses(steps, runs[0], over_steps=True)
    _draw_losses(large, runs[-1], over_steps=False)
    _draw_quadratic(quadratic, numbers)
    _draw_gaps(gaps, runs)
    return figure


def _verdict(gap: float, width: float) -> str:
    """Whether growing batches end at another loss than decaying rates, in words."""
    if abs(gap) <= width:
        return f"cannot be told apart ({gap:+.4f} ± {width:.4f})"
    return f"are {abs(gap):.4f} ± {width:.4f} {'higher' if gap > 0 else 'lower'}"


def _draw_noise(axes: Axes, runs: Sequence[Mapping[str, Any]]) -> None:
    for run in runs:
        for name, (color, style) in STYLES.items():
            noise = run[name]["noise"]
            label = NAMES[name] if run is runs[0] else None
            axes.stairs(noise, baseline=None, color=color, linestyle=style, linewidth=2, label=label)
        axes.annotate(f"rate {run['rate']:g}", (0.2, 1.12 * run["neither"]["noise"][0]), fontsize=8, color=MUTED)
    axes.set_yscale("log")
    axes.margins(y=0.15)
    dress(axes, "Noise scale: alike in every epoch", "epochs done", "noise scale  ε N / B")
    legend(axes)


def _draw_losses(axes: Axes, run: Mapping[str, Any], over_steps: bool) -> None:
    """The mean over the seeds and their range."""
    for name in ("neither", "decay", "growth"):
        training, (color, style) = run[name], STYLES[name]
        by_epoch = list(zip(*training["losses"], strict=True))
        at: Sequence[int] = training["steps"] if over_steps else range(1, len(by_epoch) + 1)
        lows, highs = ([choose(losses) for losses in by_epoch] for choose in (min, max))
        axes.fill_between(at, lows, highs, color=color, alpha=0.15, linewidth=0)
        label = f"{NAMES[name]}: {counted(training['steps'][-1], 'step')}" if over_steps else NAMES[name]
        axes.plot(at, _means(training), color=color, linestyle=style, linewidth=1.8, label=label)
    title = f"Rate {run['rate']:g}, {'step by step' if over_steps else 'epoch by epoch'}"
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:.2g}")
    axes.yaxis.set_minor_formatter("{x:.2g}")
    dress(axes, title, "steps done" if over_steps else "epochs done", "loss of all training data in nats")
    legend(axes)


def _draw_gaps(axes: Axes, runs: Sequence[Mapping[str, Any]]) -> None:
    for run, color in zip(runs, colors(2 + len(runs))[2:], strict=True):
        means, errors = zip(*_gaps(run, "growth"), strict=True)
        epochs = range(1, len(means) + 1)
        axes.errorbar(epochs, means, errors, color=color, marker="o", markersize=4, linewidth=1.2, capsize=2,
                      label=f"rate {run['rate']:g}, mean and interval")  # fmt: skip
    axes.axhline(0, color=INK, linewidth=0.8)
    dress(axes, "Growth minus decay", "epochs done", "difference of the losses in nats, paired")
    legend(axes)


def _draw_quadratic(axes: Axes, numbers: Mapping[str, Any]) -> None:
    found = numbers["quadratic"]
    size, factor = found["size"], found["factor"]
    fine = [CURVED[-1] * (i + 1) / 100 for i in range(100)]
    lines = {
        "decay": (f"rate / {factor}", [cloud(step / factor, size) for step in fine]),
        "growth": (f"batch x {factor}", [cloud(step, size * factor) for step in fine]),
    }
    for name, (label, line) in lines.items():
        axes.plot(fine, line, color=STYLES[name][0], linewidth=1.5, label=label)
        axes.plot(found["steps"], found[name]["measured"], "o", color=STYLES[name][0], markersize=5)
    axes.plot(
        fine, [step / 2 / size / factor for step in fine], ":", color=INK, linewidth=1, label="first order of both"
    )
    axes.plot([], [], "o", color=MUTED, label="measured")
    for run in numbers["runs"]:
        step = run["rate"] * fmean(run["growth"]["curvatures"])
        axes.axvline(step, color=MUTED, linewidth=0.8, linestyle="--")
        axes.annotate(
            f"networks, rate {run['rate']:g}", (step, 0.98), xycoords=("data", "axes fraction"), xytext=(-3, 0),
            textcoords="offset points", rotation=90, fontsize=8, color=MUTED, ha="right", va="top",
        )  # fmt: skip
    dress(axes, "On a quadratic function", "rate x curvature  ε h", "variance of θ / variance of the data")
    axes.legend(fontsize=8, labelcolor=INK, edgecolor="none", framealpha=0.75, loc="upper center")


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """The steps and the losses of both ways, and whether the losses differ."""
    runs, quadratic = numbers["runs"], numbers["quadratic"]
    exact = {
        name: runs[0][name]["rates"][-1] * (numbers["examples"] / runs[0][name]["sizes"][-1] - 1)  # eq. (1)
        for name in NAMES
    }
    largest, steps = runs[0]["growth"]["sizes"][-1], {name: runs[0][name]["steps"][-1] for name in NAMES}
    verdicts = [f"{_verdict(*_gaps(run, 'growth')[-1])} from rate {run['rate']:g}" for run in runs]
    lines = [
        f"Growing the batch, not decaying the rate: {counted(steps['growth'], 'step')} for {steps['decay']}; the "
        f"training losses {' and '.join(verdicts)}.",
        "Decaying rates and growing batches have the same ε N / B in every epoch; the exact ε (N / B - 1) is "
        f"{1 - exact['growth'] / exact['decay']:.1%} smaller for batches of {largest}.",
    ]
    for run in runs:
        decay, growth = _means(run["decay"]), _means(run["growth"])
        widest = max(range(len(decay)), key=lambda epoch: abs(growth[epoch] - decay[epoch]))
        gap, other = ("{:+.4f} (± {:.4f})".format(*_gaps(run, name)[-1]) for name in ("growth", "neither"))
        right = ", ".join(f"{NAMES[name]} {fmean(run[name]['accuracies']):.1%}" for name in NAMES)
        lines += [
            f"From rate {run['rate']:g} decaying rates end at a training loss of {decay[-1]:.3f}; compared with that, "
            f"growing batches end at {gap} and neither at {other}, paired over "
            f"{counted(len(run['decay']['losses']), 'seed')}. They differ most in epoch {widest + 1}, "
            f"{decay[widest]:.3f} and {growth[widest]:.3f}.",
            f"From rate {run['rate']:g}, test accuracy: {right}. Rate x curvature of the network with growing "
            f"batches: {run['rate'] * fmean(run['growth']['curvatures']):.2g}.",
        ]
    ratios = [
        wide / low for wide, low in zip(quadratic["growth"]["measured"], quadratic["decay"]["measured"], strict=True)
    ]
    lines.append(
        f"On a quadratic function a batch {quadratic['factor']} times as large leaves {ratios[0]:.2f} x the variance "
        f"that a rate as much smaller leaves where ε h is {CURVED[0]}, and {ratios[-1]:.2f} x where it is {CURVED[-1]}."
    )
    return tuple(lines)

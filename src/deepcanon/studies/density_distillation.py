"""Probability density distillation: a flow that samples fast learns from one that is trained fast."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.core import Model, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.data import load_data
from deepcanon.pictures.style import MUTED, PALETTE, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.studies._helpers.trained import trained
from deepcanon.train.randomness import kept, seed_from, seed_torch

BATCH, RATE = 256, 2e-3
MEASURED = 4000
"""How many samples the divergence is measured by."""
TIMED, DRAWS, ROUNDS = 1000, 3, 7
SHOWN = 800
LEAST = 1e-3
"""What is less, or below 0 by the noise of the samples, is drawn as so many nats."""


def density_distillation(
    maf: type[Model[Any]],
    iaf: type[Model[Any]],
    *,
    data: str = "moons",
    epochs: int = 20,
    steps: int = 1000,
    seed: int = 0,
) -> Finding:
    r"""A MAF teacher distilled to an IAF student, which never sees the data: what is lost, and how much faster it is.

    The teacher p has the density of given data in parallel, and is trained on them; its samples come value by value.
    The student q draws in parallel, with the density of what it draws. So it is trained by its own samples

    .. math:: KL(q \,\|\, p) = E_{x \sim q} [\log q(x) - \log p(x)]

    in which each of the two does what it does fast. For comparison the same IAF is trained on the data, by as many
    epochs as the teacher.

    References:
        | Parallel WaveNet: Fast High-Fidelity Speech Synthesis (van den Oord et al., 2018; section 3),
          https://arxiv.org/abs/1711.10433

    Arguments:
        maf: The teacher.
        iaf: The student.
        data: The data set, of real values.
        epochs: The epochs of the teacher, and of the flow that the student is compared with.
        steps: The training steps of the student, of 256 of its samples each.
        seed: The seed of weights and samples.
    """
    at_least(1, epochs=epochs, steps=steps)
    loaded = load_data(data)
    if "features" not in loaded.sizes or not loaded.train.x.is_floating_point():
        raise UsageError(f"densities are distilled on data of real values; {data} gives {loaded.train.noun}")
    teacher = trained(maf, loaded, seed, epochs=epochs)
    direct = trained(iaf, loaded, seed, epochs=epochs)
    student, curve = distilled(iaf, teacher, steps, seed, around=loaded.train.x[:MEASURED])
    test = loaded.split("test").x
    with torch.no_grad():
        nll = {name: -float(flow.log_prob(test).mean()) for name, flow in
               (("teacher", teacher), ("student", student), ("direct", direct))}  # fmt: skip
        shown = {name: flow.sample(SHOWN, generator=Generator().manual_seed(seed)).flatten(1)[:, :2] for name, flow in
                 (("teacher", teacher), ("student", student))}  # fmt: skip
    divergence, error = kl_divergence(student, teacher, seed)
    settings = (
        f"{data}; teacher of {counted(epochs, 'epoch')}, student of {counted(steps, 'step')} of {BATCH} samples; the "
        f"divergence by {MEASURED} samples; {TIMED} samples timed, {ROUNDS} times in turn, medians; "
        f"seed {seed}"
    )
    numbers = {
        "settings": settings, "features": int(loaded.sizes["features"]), "nll": nll, "kl": divergence, "error": error,
        "curve": curve, "faster": _faster(teacher, student), "drawn": TIMED,
        "samples": {name: [[round(v, 3) for v in row] for row in x.tolist()] for name, x in shown.items()},
    }  # fmt: skip
    return concluded(numbers, sentences, draw)


def distilled(
    iaf: type[Model[Any]], teacher: Any, steps: int, seed: int, around: Tensor, points: int = 20
) -> tuple[Any, list[tuple[int, float]]]:
    """The student after so many steps, and the divergence of its batches on the way; it begins at this place and scale.

    Without these, units of the data would have to be found first.
    """
    with kept():
        seed_torch(seed_from(seed, "student"))
        student: Any = iaf(**{name: teacher.hparams[name] for name in ("features", "transforms", "hidden")})
    student.flow.fit(around.flatten(1))
    teacher = copy.deepcopy(teacher).requires_grad_(False)
    random = Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(student.parameters(), lr=RATE, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    every, curve, gap = max(1, steps // points), [], 0.0
    for step in range(steps):
        x, log_density = student.drawn(BATCH, generator=random)
        loss = (log_density - teacher.log_prob(x)).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 5.0)
        optimizer.step()
        decay.step()
        gap += float(loss.detach()) / every
        if (step + 1) % every == 0:
            curve.append((step + 1, gap))
            gap = 0.0
    return student.eval(), curve


@torch.no_grad()
def kl_divergence(student: Any, teacher: Any, seed: int, count: int = MEASURED) -> tuple[float, float]:
    """The KL divergence of the student from the teacher by so many samples, with its standard error."""
    x, log_density = student.drawn(count, generator=Generator().manual_seed(seed + 1))
    gaps = (log_density - teacher.log_prob(x)).double()
    return float(gaps.mean()), float(gaps.std()) / math.sqrt(count)


@torch.no_grad()
def _faster(teacher: Any, student: Any) -> float:
    """How many times as long the teacher takes to draw."""
    ratios = []
    for _ in range(ROUNDS):
        seconds = []
        for flow in (teacher, student):
            start = time.perf_counter()
            for _ in range(DRAWS):
                flow.sample(TIMED)
            seconds.append(time.perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
    return sorted(ratios)[ROUNDS // 2]


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """What the student lost, next to the same flow trained on data, and how much faster it draws."""
    nll = numbers["nll"]
    return (
        f"A student that never saw the data is {numbers['kl']:.3f} ± {2 * numbers['error']:.3f} nats away from its "
        "teacher.",
        f"Test data have {nll['student']:.3f} nats under it, {nll['teacher']:.3f} under the teacher, and "
        f"{nll['direct']:.3f} under the same flow trained on the data.",
        f"Of {counted(numbers['features'], 'feature')} it draws {numbers['drawn']} samples "
        f"{numbers['faster']:.1f} times as fast as the teacher.",
    )


def draw(numbers: Mapping[str, Any]) -> Figure:
    """Samples of teacher and student, and the divergence as the student learns."""
    figure = new_figure(12.4, 4.2)
    left, middle, right = figure.subplots(1, 3)
    for axes, name, color in ((left, "teacher", PALETTE[0]), (middle, "student", PALETTE[1])):
        x = torch.tensor(numbers["samples"][name]).T
        axes.scatter(x[0].numpy(), x[-1].numpy(), s=4, color=color, alpha=0.6, linewidth=0)
        dress(axes, f"Samples of the {name}", "feature 1", "feature 2")
    middle.set_xlim(left.get_xlim())
    middle.set_ylim(left.get_ylim())
    steps, gaps = zip(*numbers["curve"], strict=True)
    right.plot(steps, [max(gap, LEAST) for gap in gaps], color=PALETTE[1], label="batches")
    right.axhline(max(numbers["kl"], LEAST), color=MUTED, linewidth=1, linestyle="--", label="at the end")
    right.set_yscale("log")
    dress(right, "KL divergence from the teacher", "step", "nats")
    legend(right)
    return figure

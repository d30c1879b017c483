"""The laws of continuous densities: modules whose ``log_prob`` is the exact logarithm of a density.

In one or two dimensions the density is integrated on a grid. Its gradient is taken by autograd, and compared with
``score`` and, by Stein's identity, with the module's own samples.
"""

from __future__ import annotations

import copy
import inspect
import math
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Model, UsageError, conditioned
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.play import train_briefly
from deepcanon.laws.probe import converted, doubled, first, log_prob_of, seeded, total

DRAWS = 4000
SIGMAS = 6.0
"""How many standard errors a mean may be away from its expectation."""
POINTS = 601
"""How many points a grid has along each dimension; a line has the square of it."""
FINE = 2e-3
"""How much an integral may move when its grid is made twice as fine, else it is not trusted."""


@law
def log_densities_are_numbers(module: Any, batch: Batch) -> Measured:
    """Each example has one finite log-density."""
    module, batch = settled(module, batch)
    with torch.no_grad():
        found = module.log_prob(batch.x)
    if tuple(found.shape) != (len(batch.x),):
        return 1, 0, f"log_prob gives {tuple(found.shape)} for {len(batch.x)} examples"
    return int((~found.isfinite()).sum()), 0, f"{len(found)} log-densities, their mean is {float(found.mean()):.6g}"


@law
def density_integrates_to_one(module: Any, batch: Batch) -> Measured | None:
    """The density has the total mass 1, by a sum over a grid in one or two dimensions."""
    if not exact(module):
        return None
    module, batch = settled(module, batch)
    grid = Grid.around(module, batch)
    if grid is None:
        return None
    mass, rough = (float(part.log_masses(module).exp().sum()) for part in (grid, grid.coarser()))
    if abs(mass - rough) > FINE:
        return None
    return abs(mass - 1), 0.01, f"the density sums to {mass:.6g} over {grid.points} points along each axis"


@law
def score_is_the_gradient_of_the_log_density(module: Any, batch: Batch) -> Measured | None:
    """``score`` is the gradient of ``log_prob``, not of the density itself, at every example.

    The law does not apply to a score that is learned by itself, of data with the noise of a time t.
    """
    if not (exact(module) and hasattr(module, "score")) or "t" in inspect.signature(module.score).parameters:
        return None
    module, batch = settled(module, batch)
    wanted = gradient(module, batch.x)
    with torch.no_grad():
        gap = float((module.score(batch.x) - wanted).abs().max())
    return gap, 1e-6 * (1 + float(wanted.abs().max())), f"{len(wanted)} scores; the largest difference is {gap:.3g}"


@law
def steins_identity_holds_on_own_samples(module: Any, batch: Batch) -> Measured | None:
    """Over the module's samples the gradient g of its log-density has E g = 0 and E x g' = -I."""
    if not (exact(module) and hasattr(module, "sample")):
        return None
    module, batch = settled(module, batch)
    with torch.no_grad():
        x = module.sample(DRAWS, generator=seeded(0)).double().flatten(1)
    g = gradient(module, x.reshape(DRAWS, *batch.x.shape[1:])).flatten(1)
    centered = (x - x.mean(0)) / x.std(0)  # so that units do not matter
    products = torch.einsum("bi,bj->bij", centered, g * x.std(0))
    worst = max(sigmas(g * x.std(0), 0.0), sigmas(products.flatten(1), -torch.eye(x.shape[1]).double().flatten()))
    return worst, SIGMAS, f"{DRAWS} samples; the worst mean is {worst:.2f} standard errors off"


@law
def units_only_shift_the_density(module: Any, batch: Batch) -> Measured | None:
    """A model that brings data to its own scale gives c x the log-density of x minus D log c."""
    if not (exact(module) and isinstance(module, Model)):
        return None
    factor, size = 3.0, batch.x.shape[1:].numel()
    other = converted(batch, lambda t: factor * t + 1 if t.is_floating_point() else t)
    found = []
    for part in (batch, other):
        twin, prepared = doubled(copy.deepcopy(module), part)
        twin.prepare([prepared])
        with torch.no_grad():
            found.append(conditioned(twin, prepared).log_prob(prepared.x))
    shift = found[1] - found[0]
    if float(shift.std()) > 1e-4:
        return None  # it works in the units of the data
    gap = abs(float(shift.mean()) + size * math.log(factor))
    return gap, 1e-4 * size, f"for {factor:g} x the log-density shifts by {float(shift.mean()):.6g}"


@law
def loss_is_the_negative_log_likelihood(module: Any, batch: Batch) -> Measured | None:
    """The loss, unless it is a surrogate, or one of its terms is the negative log-likelihood by the batch's weight.

    That is the mean over the examples, and of videos over their frames. A model whose likelihood is measured apart from
    its loss, as ``measured_samples`` says, is not held to it.
    """
    apart = getattr(module, "surrogate", False) or getattr(module, "measured_samples", None) is not None
    if apart or not (exact(module) and hasattr(module, "loss")):
        return None
    module, batch = settled(module, batch)
    with torch.no_grad():
        terms = module.loss(batch)
        wanted = -float(log_prob_of(conditioned(module, batch), batch).sum()) / batch.weight
    nearest = min((float(v) for v in (total(terms), *terms.values())), key=lambda value: abs(value - wanted))
    return abs(nearest - wanted), 1e-6 * (1 + abs(wanted)), f"the loss is {nearest:.6g}, -log p is {wanted:.6g}"


LAWS = (
    log_densities_are_numbers,
    density_integrates_to_one,
    score_is_the_gradient_of_the_log_density,
    steins_identity_holds_on_own_samples,
    units_only_shift_the_density,
    loss_is_the_negative_log_likelihood,
)


def check_continuous(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of continuous densities in any module with ``log_prob``."""
    if not callable(getattr(module, "log_prob", None)) or not batch.x.is_floating_point():
        raise UsageError("a continuous density has log_prob, and is checked on real numbers")
    return outcomes(LAWS, module, batch)


def exact(module: Any) -> bool:
    """Whether ``log_prob`` is the exact log-density; a module without ``likelihood_kind`` is taken to be exact."""
    return getattr(module, "likelihood_kind", "exact") == "exact"


def settled(module: Any, batch: Batch) -> tuple[Any, Batch]:
    """Module and batch in double precision; a model after a short training, since many weights may start at zero.

    A conditional model is conditioned on what the first example gives.
    """
    if isinstance(module, Model):
        train_briefly(module, batch)
    module, batch = doubled(module, batch)
    return conditioned(module, first(batch, 1)), batch


def gradient(module: Any, x: Tensor) -> Tensor:
    """The gradient of ``log_prob`` at each example."""
    x = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(module.log_prob(x).sum(), x)
    return slope


class Grid:
    """A regular grid over a box in one or two dimensions; every point is the center of a cell."""

    def __init__(self, low: Tensor, high: Tensor, points: int, shape: torch.Size) -> None:
        self.low, self.high, self.points, self.shape = low, high, points, shape

    @classmethod
    def around(cls, module: Any, batch: Batch) -> Grid | None:
        """A box that holds the examples and the module's own samples with much room to spare."""
        shape = batch.x.shape[1:]
        if shape.numel() > 2:
            return None
        covered = [batch.x.double().flatten(1)]
        if hasattr(module, "sample"):
            with torch.no_grad():
                covered.append(module.sample(DRAWS, generator=seeded(1)).double().flatten(1))
        x = torch.cat(covered)
        room = 2 * x.std(0) + 0.25 * (x.amax(0) - x.amin(0))
        points = POINTS if shape.numel() == 2 else POINTS**2
        return cls(x.amin(0) - room, x.amax(0) + room, points, shape)

    def coarser(self) -> Grid:
        return Grid(self.low, self.high, self.points // 2, self.shape)

    def log_masses(self, module: Any) -> Tensor:
        """The logarithm of the mass of every cell, (points,) or (points, points)."""
        width = (self.high - self.low) / self.points
        centers = torch.arange(self.points, dtype=torch.float64) + 0.5
        lines = [low + step * centers for low, step in zip(self.low, width, strict=True)]
        cells = torch.cartesian_prod(*lines).reshape(-1, *self.shape)
        with torch.no_grad():
            density = torch.cat([module.log_prob(part) for part in cells.split(2**16)])
        return density.reshape([self.points] * len(lines)) + float(width.log().sum())


def sigmas(values: Tensor, wanted: Tensor | float) -> float:
    """How many standard errors the worst column mean is away from what it should be."""
    error = (values.var(0) / len(values)).sqrt() + 1e-12
    return float(((values.mean(0) - wanted).abs() / error).max())

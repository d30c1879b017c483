"""Moves of Markov chains on real values: Langevin dynamics and Hamiltonian Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from deepcanon.core.checks import at_least

Potential = Callable[[Tensor], Tensor]
"""The energy of each example, (B,), differentiable: the negative log-density up to a constant."""


class Move(NamedTuple):
    """The states after a move, (B, ...), and the probability with which each was accepted, (B,)."""

    x: Tensor
    acceptance: Tensor


def langevin(energy: Potential, x: Tensor, step_size: float, generator: Generator | None = None) -> Tensor:
    r"""A step of unadjusted Langevin dynamics, :math:`x - \frac{\epsilon^2}{2} \nabla E(x) + \epsilon \xi`.

    Its stationary distribution is off by the discretization: of a standard normal the variance is
    :math:`1 / (1 - \epsilon^2 / 4)`.

    >>> langevin(lambda x: x.square().sum(-1) / 2, torch.full((1, 1), 8.0), 1e-4).round()
    tensor([[8.]])
    """
    _, slope = _energy_and_slope(energy, x)
    return langevin_step(x, slope, step_size, generator)


def langevin_step(x: Tensor, slope: Tensor, step_size: float, generator: Generator | None = None) -> Tensor:
    """The step of :func:`langevin` where the gradient of the energy is at hand."""
    return torch.add(x, slope, alpha=-0.5 * step_size**2).add_(_normal(x, generator), alpha=step_size)


def mala(energy: Potential, x: Tensor, step_size: float, generator: Generator | None = None) -> Move:
    """A step of the Metropolis-adjusted Langevin algorithm (MALA), which leaves exp(-E) invariant at any step size.

    It is Hamiltonian Monte Carlo with a single leapfrog step.
    """
    return hmc(energy, x, step_size, 1, generator)


def hmc(
    energy: Potential, x: Tensor, step_size: float, leapfrog_steps: int, generator: Generator | None = None
) -> Move:
    """A move of Hamiltonian Monte Carlo: a normal momentum, leapfrog steps, and a Metropolis test of the total energy.

    The leapfrog preserves volume and can be reversed, so that the test leaves exp(-E) invariant. Where the energy is
    not finite, the move is rejected.
    """
    at_least(1, leapfrog_steps=leapfrog_steps)
    momentum = _normal(x, generator)
    before, slope = _energy_and_slope(energy, x)
    before = before + _kinetic(momentum)
    place, after = x, before
    for _ in range(leapfrog_steps):
        momentum = momentum - 0.5 * step_size * slope
        place = place + step_size * momentum
        after, slope = _energy_and_slope(energy, place)
        momentum = momentum - 0.5 * step_size * slope
    rise = (after + _kinetic(momentum) - before).nan_to_num(nan=torch.inf)
    acceptance = (-rise).clamp_max(0).exp()
    uniform = torch.rand(len(x), generator=generator, device=x.device, dtype=x.dtype)
    accepted = (uniform < acceptance).view(-1, *[1] * (x.ndim - 1))
    return Move(torch.where(accepted, place, x), acceptance)


def _energy_and_slope(energy: Potential, x: Tensor) -> tuple[Tensor, Tensor]:
    """The energy of each example and its gradient, both detached."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        found = energy(x)
        (slope,) = torch.autograd.grad(found.sum(), x)
    return found.detach(), slope


def _kinetic(momentum: Tensor) -> Tensor:
    return 0.5 * momentum.flatten(1).square().sum(1)


def _normal(like: Tensor, generator: Generator | None) -> Tensor:
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)

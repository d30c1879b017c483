r"""Probability flow: the differential equation that moves noise to data as the noise of a diffusion falls.

Data with noise, :math:`x = a x_0 + s \varepsilon`, are seen at the angle :math:`\varphi = \arctan(s / a)` and at unit
scale, :math:`y = x / \sqrt{a^2 + s^2} = \cos\varphi \, x_0 + \sin\varphi \, \varepsilon`. Whatever a and s are, the
distribution of y moves along one equation from the data at :math:`\varphi = 0` to noise at :math:`\pi / 2`:

.. math:: \frac{dy}{d\varphi} = v(y, \varphi) = E[\cos\varphi \, \varepsilon - \sin\varphi \, x_0 \mid y]

Its solutions are smoother than those in time, where the scale of x and the speed of the noise change as well. The
log-density changes by the divergence of v along a solution.

References:
    | Score-Based Generative Modeling through Stochastic Differential Equations (Song et al., 2021),
      https://arxiv.org/abs/2011.13456
    | Progressive Distillation for Fast Sampling of Diffusion Models (Salimans and Ho, 2022; the angle and v),
      https://arxiv.org/abs/2202.00512
    | FFJORD: Free-form Continuous Dynamics for Scalable Reversible Generative Models (Grathwohl et al., 2019; the
      divergence by random directions), https://arxiv.org/abs/1810.01367
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

from deepcanon.nn.ode import Field, integrate

GRID = 16
"""How many sizes a step may have from a power of 2 to the next."""


def to_noise(
    velocity: Field, y: Tensor, angle: float, directions: Tensor, *, tolerance: float = 1e-5
) -> tuple[Tensor, Tensor]:
    r"""The solutions at ``angle`` that begin with y, (B, D), at angle 0, and the change of the log-density, (B,).

    The divergence of v is :math:`\sum_e e^\top \frac{\partial v}{\partial y} e` over ``directions``, (S, B, D), whose
    outer products sum to the identity: :func:`axes`, or in expectation :func:`random_signs`.

    >>> shrinking = lambda angle, y: -y
    >>> z, change = to_noise(shrinking, torch.ones(1, 2), 1.0, axes(torch.ones(1, 2)))
    >>> [round(value, 4) for value in (*z[0].tolist(), *change.tolist())]
    [0.3679, 0.3679, -2.0]
    """

    def dynamics(t: Tensor, state: Tensor) -> Tensor:
        slope, trace = with_divergence(lambda point: velocity(t, point), state[:, :-1], directions)
        return torch.cat([slope, trace.unsqueeze(1)], 1)

    start = torch.cat([y, y.new_zeros(len(y), 1)], 1)
    end = integrate(dynamics, start, (0.0, angle), rtol=tolerance, atol=tolerance, grid=GRID)[-1]
    return end[:, :-1], end[:, -1]


def to_data(velocity: Field, z: Tensor, angle: float, *, tolerance: float = 1e-5) -> Tensor:
    """The solutions at angle 0 that end with z, (B, D), at ``angle``."""
    return integrate(velocity, z, (angle, 0.0), rtol=tolerance, atol=tolerance, grid=GRID)[-1]


def with_divergence(field: Callable[[Tensor], Tensor], y: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    r"""A field at y, (B, D), and :math:`\sum_e e^\top \frac{\partial v}{\partial y} e` over directions (S, B, D), (B,).

    It costs a backward pass for each direction, which is faster than forward mode. Gradients go through both to y.

    >>> value, trace = with_divergence(torch.square, torch.tensor([[3.0, 1.0]]), axes(torch.ones(1, 2)))
    >>> value.tolist(), trace.item()
    ([[9.0, 1.0]], 8.0)
    """
    learning = torch.is_grad_enabled() and y.requires_grad
    with torch.enable_grad():
        y = y if learning else y.detach().requires_grad_()
        value = field(y)
        trace = y.new_zeros(len(y))
        for i, direction in enumerate(directions):
            again = learning or i + 1 < len(directions)
            (row,) = torch.autograd.grad(value, y, direction, retain_graph=again, create_graph=learning)
            trace = trace + (row * direction).sum(-1)
    return (value, trace) if learning else (value.detach(), trace.detach())


def axes(y: Tensor) -> Tensor:
    """The axes of the space for each row of y, (B, D): directions (D, B, D) by which the divergence is exact."""
    eye = torch.eye(y.shape[1], dtype=y.dtype, device=y.device)
    return eye.unsqueeze(1).expand(-1, len(y), -1)


def random_signs(y: Tensor, count: int, generator: Generator | None = None) -> Tensor:
    """Random directions, (count, B, D), by which the divergence has the right mean (Hutchinson's estimator)."""
    signs = 2 * torch.randint(2, (count, *y.shape), generator=generator, device=y.device).to(y.dtype) - 1
    return signs / math.sqrt(count)

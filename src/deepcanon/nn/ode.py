r"""Ordinary differential equations: an adaptive Runge-Kutta method, and gradients by the adjoint method.

An equation :math:`dy/dt = f(t, y)` is solved by the pair of Dormand and Prince: a step of order 5, whose error is
estimated by an embedded one of order 4, and an interpolant of order 4 between the steps. Every example of a batch has
steps of its own, so that its solution does not depend on the others.

References:
    | A family of embedded Runge-Kutta formulae (Dormand and Prince, 1980),
      https://doi.org/10.1016/0771-050X(80)90013-3
    | Some practical Runge-Kutta formulas (Shampine, 1986; the interpolant), https://doi.org/10.2307/2008219
    | Solving Ordinary Differential Equations I (Hairer, Norsett and Wanner, 1993; section II.4, the steps), Springer
    | Neural Ordinary Differential Equations (Chen et al., 2018; the adjoint method), https://arxiv.org/abs/1806.07366
    | "Hey, that's not an ODE": Faster ODE Adjoints via Seminorms (Kidger et al., 2021),
      https://arxiv.org/abs/2009.09457
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import DivergenceError, UsageError

Field = Callable[[Tensor, Tensor], Tensor]
"""The derivative dy/dt, (B, K), at times, (B,), and states, (B, K)."""

NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0)
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
STEP = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
ERROR = (-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40)
INTERPOLANT = (
    (1.0, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432),
    (0.0, 0.0, 0.0, 0.0),
    (0.0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799),
    (0.0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072),
    (0.0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632),
    (0.0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844),
    (0.0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423),
)
SAFETY, LEAST, MOST = 0.9, 0.2, 10.0
"""By how much a step stays below the one that the error allows, and how much it may shrink or grow at once."""


def integrate(
    field: Field,
    y: Tensor,
    times: Sequence[float],
    *,
    rtol: float = 1e-6,
    atol: float = 1e-6,
    controlled: int | None = None,
    max_steps: int = 1000,
    grid: int | None = None,
) -> Tensor:
    """The states at all ``times``, (T, B, K), of which y, (B, K), is the first; times rise or fall.

    The estimated error of each step stays below ``atol + rtol * |y|``, as root mean square over the first
    ``controlled`` values of a state, or all. A tolerance below ten times the precision of y is raised to that: no step
    is that exact. Gradients go through the steps. With a ``grid``, a step has one of so many sizes from a power of 2 to
    the next: errors of rounding, which depend on how many examples are computed at once, would else make steps differ
    more and more, until the solution differs by as much as is tolerated.

    >>> decay = integrate(lambda t, y: -y, torch.ones(1, 1), [0.0, 1.0, 2.0])
    >>> [f"{value:.4f}" for value in decay.flatten().tolist()]
    ['1.0000', '0.3679', '0.1353']
    """
    direction = _direction(times)
    least = 10 * torch.finfo(y.dtype).eps
    control = _Control(max(rtol, least), max(atol, least), controlled)
    end, inner = times[-1], y.new_tensor(times[1:-1])
    between = [torch.zeros_like(y) for _ in inner]
    t = y.new_full((len(y),), times[0])
    slope = field(t, y)
    size = _rounded(_first_size(field, t, y, slope, end - times[0], control), grid)
    first, most = y, torch.full_like(t, MOST)
    for _ in range(max_steps):
        left = (end - t).abs()
        if not bool(left.any()):
            return torch.stack([first, *between, y])
        size = torch.minimum(size, left)
        h = (direction * size).unsqueeze(1)
        new, slopes = _step(field, t, y, slope, h)
        with torch.no_grad():
            ratio = control.norm(h * _mix(ERROR, slopes), y, new)
            accepted = ratio <= 1  # not where it is NaN
            factor = (SAFETY * ratio**-0.2).nan_to_num(LEAST, posinf=MOST).clamp(min=LEAST)
            after = torch.where(size == left, end, t + direction * size)
            if bool(((after == t) & (left > 0)).any()):
                break
        keep = accepted.unsqueeze(1)
        for i, moment in enumerate(inner):
            share = ((moment - t) / (after - t)).unsqueeze(1)
            inside = keep & (share > 0) & (share <= 1)
            value = y + h * _mix_at(torch.where(inside, share, 0.0), slopes)  # no NaN, which would reach the gradient
            between[i] = torch.where(inside, value, between[i])
        y, slope = torch.where(keep, new, y), torch.where(keep, slopes[-1], slope)
        t = torch.where(accepted, after, t)
        size = _rounded(size * torch.minimum(factor, most), grid)
        most = torch.where(accepted, MOST, 1.0)  # no growth right after a rejection
    raise DivergenceError(
        f"the differential equation was not solved from {times[0]:g} to {end:g} in {max_steps} steps: its derivative "
        "is not finite, or changes too fast; take a smaller learning rate or a larger tolerance"
    )


def integrate_adjoint(
    field: Field,
    y: Tensor,
    times: Sequence[float],
    parameters: Iterable[nn.Parameter],
    *,
    rtol: float = 1e-6,
    atol: float = 1e-6,
) -> Tensor:
    r"""The states at all ``times``, as of :func:`integrate`, with gradients by the adjoint method.

    Nothing of the steps is stored: the backward pass solves, from the last time to the first,

    .. math:: \frac{da}{dt} = -a^\top \frac{\partial f}{\partial y}, \qquad
        \frac{dL}{d\theta} = \int a^\top \frac{\partial f}{\partial \theta} dt

    with the gradient :math:`a = dL/dy`. ``parameters`` are those of the field that get a gradient.
    """
    _direction(times)
    control = {"rtol": rtol, "atol": atol}
    states: Tensor = _Adjoint.apply(field, tuple(times), control, y, *parameters)  # type: ignore[no-untyped-call]
    return states


class _Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, field: Field, times: Any, control: Any, y: Tensor, *parameters: Tensor) -> Tensor:
        ctx.field, ctx.times, ctx.control = field, times, control
        states = integrate(field, y, times, **control)
        ctx.save_for_backward(states, *parameters)
        return states

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (states, *parameters), (gradient,) = ctx.saved_tensors, gradients
        sizes = [part.numel() for part in (states[0], states[0], *parameters)]

        def field(t: Tensor, row: Tensor) -> Tensor:
            state, adjoint, *_ = row[0].split(sizes)
            with torch.enable_grad():
                y = state.view_as(states[0]).detach().requires_grad_()
                slope = ctx.field(t.expand(len(y)), y)
                inputs = [y, *parameters]
                found = torch.autograd.grad(slope, inputs, -adjoint.view_as(y), allow_unused=True)
            parts = [torch.zeros_like(a) if b is None else b for a, b in zip(inputs, found, strict=True)]
            return torch.cat([slope.detach().flatten(), *(part.flatten() for part in parts)]).unsqueeze(0)

        adjoint = gradient[-1]
        of_parameters = adjoint.new_zeros(sum(sizes[2:]))
        for late, early in pairwise(reversed(range(len(ctx.times)))):
            row = torch.cat([states[late].flatten(), adjoint.flatten(), of_parameters]).unsqueeze(0)
            span = (ctx.times[late], ctx.times[early])
            row = integrate(field, row, span, controlled=2 * states[0].numel(), **ctx.control)[-1]
            _, solved, of_parameters = row[0].split([*sizes[:2], sum(sizes[2:])])
            adjoint = solved.view_as(adjoint) + gradient[early]
        shares = of_parameters.split(sizes[2:])
        return None, None, None, adjoint, *(b.view_as(a) for a, b in zip(parameters, shares, strict=True))


class _Control:
    """The norm of an error, relative to what is tolerated, (B,)."""

    def __init__(self, rtol: float, atol: float, controlled: int | None) -> None:
        self.rtol, self.atol, self.controlled = rtol, atol, controlled

    def norm(self, error: Tensor, *states: Tensor) -> Tensor:
        largest = torch.stack(states).abs().amax(0)
        relative = (error / (self.atol + self.rtol * largest))[:, : self.controlled]
        return relative.square().mean(1).sqrt()


def _step(field: Field, t: Tensor, y: Tensor, slope: Tensor, h: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The state after one step, and the slopes of its stages; the last one is the first of the next step."""
    slopes = [slope]
    for node, weights in zip(NODES, STAGES, strict=True):
        slopes.append(field(t + node * h.squeeze(1), y + h * _mix(weights, slopes)))
    new = y + h * _mix(STEP, slopes)
    return new, [*slopes, field(t + h.squeeze(1), new)]


def _mix(weights: Sequence[float], slopes: Sequence[Tensor]) -> Tensor:
    """The weighted sum of slopes."""
    weighted = [(weight, slope) for weight, slope in zip(weights, slopes, strict=True) if weight]
    (weight, slope), *others = weighted
    total = weight * slope
    for weight, slope in others:
        total = total.add(slope, alpha=weight)
    return total


def _mix_at(share: Tensor, slopes: Sequence[Tensor]) -> Tensor:
    """The sum of slopes whose multiple is the way from the beginning of a step to this share of it."""
    powers = [share, share**2, share**3, share**4]
    polynomials = [sum(a * power for a, power in zip(row, powers, strict=True)) for row in INTERPOLANT]
    return torch.stack([a * slope for a, slope in zip(polynomials, slopes, strict=True)]).sum(0)


@torch.no_grad()
def _first_size(field: Field, t: Tensor, y: Tensor, slope: Tensor, span: float, control: _Control) -> Tensor:
    """The size of the first step of each example, (B,), by the size and the change of its derivative."""
    direction = 1.0 if span > 0 else -1.0
    state, first = control.norm(y, y), control.norm(slope, y)
    small = (state < 1e-5) | (first < 1e-5)
    guess = torch.where(small, 1e-6, 0.01 * state / first.clamp_min(1e-30)).clamp(max=abs(span))
    moved = field(t + direction * guess, y + (direction * guess).unsqueeze(1) * slope)
    second = control.norm(moved - slope, y) / guess
    largest = torch.maximum(first, second)
    size = torch.where(largest <= 1e-15, (1e-3 * guess).clamp_min(1e-6), (0.01 / largest.clamp_min(1e-30)) ** 0.2)
    return torch.minimum(100 * guess, size).nan_to_num(1e-6).clamp(max=abs(span))


def _rounded(size: Tensor, grid: int | None) -> Tensor:
    """Sizes of steps, rounded down to one of so many from a power of 2 to the next."""
    return size if grid is None else torch.exp2(torch.floor(torch.log2(size) * grid) / grid)


def _direction(times: Sequence[float]) -> float:
    signs = {(later > earlier) - (later < earlier) for earlier, later in pairwise(times)}
    if signs not in ({1}, {-1}):
        raise UsageError(f"an equation is solved along two or more times that rise, or fall (got {list(times)})")
    return float(signs.pop())

"""Flows fitted to densities that are known but for their constant: how much a longer flow can."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor

from deepcanon.core import Model, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.pictures.style import MUTED, PALETTE, SHADES, dress, legend, new_figure
from deepcanon.studies._helpers.concluded import concluded
from deepcanon.train.randomness import kept, seed_torch

Energy = Callable[[Tensor], Tensor]

REACH = 5.0
"""Densities are summed and drawn on a grid of so much on both sides of 0."""
WALL, SOFTNESS = 4.0, 0.3
BATCH, RATE = 256, 2e-2


def flow_targets(
    planar: type[Model[Any]],
    radial: type[Model[Any]],
    *,
    lengths: tuple[int, ...] = (2, 8, 32),
    steps: int = 500,
    points: int = 60,
    seed: int = 0,
) -> Finding:
    r"""Planar and radial flows of growing length, fitted to four densities by their own samples, without any data.

    The targets :math:`p(x) = e^{-U(x)} / Z` have two modes, or one that bends. A flow q is fitted by what it draws,

    .. math:: KL(q \,\|\, p) = E_{x \sim q} [\log q(x) + U(x)] + \log Z

    of which the constant need not be known; at first U counts less, as if the target were hot. Since
    the flows can be inverted, the divergence that is left is then summed over a grid, exactly, with Z. Three of the
    targets do not end on the left and right, where their total is infinite; here they end, softly, beyond 4.

    References:
        | Variational Inference with Normalizing Flows (Rezende and Mohamed, 2015; table 1 and figure 3),
          https://arxiv.org/abs/1505.05770

    Arguments:
        planar: The flow that pushes points along directions.
        radial: The flow that pushes points away from centers.
        lengths: The numbers of transforms.
        steps: The training steps, of 256 samples each.
        points: How many points the grid has along each side.
        seed: The seed of weights and samples.
    """
    if not lengths or min(lengths) < 1:
        raise UsageError(f"lengths are numbers of transforms, 1 or more (got {lengths})")
    at_least(1, steps=steps)
    at_least(20, points=points)
    grid = grid_points(points)
    rows: list[dict[str, Any]] = []
    for name, energy in TARGETS.items():
        log_target = normalized(-energy(grid), points)
        row: dict[str, Any] = {"target": name, "density": _shares(log_target)}
        for flow in (planar, radial):
            found = [fitted(flow, length, energy, steps, seed)(grid) for length in lengths]
            row[flow.name()] = {
                "kl": [float((log_q.exp() * (log_q - log_target)).sum()) * cell(points) for log_q in found],
                "mass": [float(log_q.exp().sum()) * cell(points) for log_q in found],
                "densities": [_shares(log_q) for log_q in found],
            }
        rows.append(row)
    settings = (
        f"{', '.join(map(str, lengths))} transforms; {counted(steps, 'step')} of {BATCH} samples; sums over {points} x "
        f"{points} points; seed {seed}, one training each"
    )
    return concluded({"settings": settings, "lengths": list(lengths), "rows": rows}, sentences, draw)


def fitted(flow: type[Model[Any]], length: int, energy: Energy, steps: int, seed: int) -> Callable[[Tensor], Tensor]:
    """The log-density of a flow of two features after so many steps towards the target of this energy."""
    with kept():
        seed_torch(seed)
        model: Any = flow(features=2, transforms=length)
    random = Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        share = min(1.0, 0.01 + 2 * step / steps)
        x, log_density = model.drawn(BATCH, generator=random)
        optimizer.zero_grad()
        (log_density + share * energy(x)).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        decay.step()
    exact = model.double().eval()
    return torch.no_grad()(lambda x: exact.log_prob(x))


def ring(x: Tensor) -> Tensor:
    """Two arcs of a ring of radius 2, on its left and right."""
    radius = torch.linalg.vector_norm(x, dim=-1)
    sides = torch.stack([-0.5 * ((x[..., 0] - side) / 0.6).square() for side in (2.0, -2.0)])
    energy: Tensor = 0.5 * ((radius - 2) / 0.4).square() - sides.logsumexp(0)
    return energy


def wave(x: Tensor) -> Tensor:
    """A band along a sine."""
    return 0.5 * (_off(x) / 0.4).square() + _walls(x)


def bump(x: Tensor) -> Tensor:
    """A band along a sine, and a second one that leaves it and comes back."""
    away = 3 * torch.exp(-0.5 * ((x[..., 0] - 1) / 0.6).square())
    return _two_bands(_off(x) / 0.35, (_off(x) + away) / 0.35) + _walls(x)


def fork(x: Tensor) -> Tensor:
    """A band along a sine that splits into two."""
    away = 3 * torch.sigmoid((x[..., 0] - 1) / 0.3)
    return _two_bands(_off(x) / 0.4, (_off(x) + away) / 0.35) + _walls(x)


TARGETS: dict[str, Energy] = {"ring": ring, "wave": wave, "bump": bump, "fork": fork}


def _off(x: Tensor) -> Tensor:
    return x[..., 1] - torch.sin(2 * math.pi * x[..., 0] / 4)


def _two_bands(one: Tensor, other: Tensor) -> Tensor:
    return -torch.logaddexp(-0.5 * one.square(), -0.5 * other.square())


def _walls(x: Tensor) -> Tensor:
    return 0.5 * ((x[..., 0].abs() - WALL).relu() / SOFTNESS).square()


def grid_points(points: int) -> Tensor:
    """The points of the grid, (points * points, 2), row by row from the top, in double precision."""
    line = torch.linspace(-REACH, REACH, points, dtype=torch.float64)
    return torch.cartesian_prod(-line, line).flip(1)


def cell(points: int) -> float:
    """The area that a point of the grid stands for."""
    return (2 * REACH / (points - 1)) ** 2


def normalized(log_values: Tensor, points: int) -> Tensor:
    """The log-density of these values on the grid, whose sum over it is 1.

    >>> flat = normalized(torch.zeros(400), 20)
    >>> f"{float(flat.exp().sum() * cell(20)):.4f}"
    '1.0000'
    """
    return log_values - log_values.logsumexp(0) - math.log(cell(points))


def _shares(log_density: Tensor) -> list[float]:
    """The density as shares of its largest value, to be drawn."""
    return [round(value, 2) for value in (log_density - log_density.max()).exp().tolist()]


def sentences(numbers: Mapping[str, Any]) -> tuple[str, ...]:
    """What more transforms gain, and which flow is nearer to which target."""
    lengths, rows = numbers["lengths"], numbers["rows"]
    short, long = (_mean(rows, "planar", end) for end in (0, -1))
    nearer = [row["target"] for row in rows if row["planar"]["kl"][-1] < row["radial"]["kl"][-1]]
    least = min(mass for row in rows for flow in ("planar", "radial") for mass in row[flow]["mass"])
    return (
        f"With {lengths[-1]} planar transforms the divergence from the target is {long / short:.0%} of that with "
        f"{lengths[0]}.",
        f"With {lengths[-1]} of them it is {long:.2f} nats in the mean of the targets, with {lengths[0]} "
        f"{short:.2f}; of radial ones {_mean(rows, 'radial', -1):.2f} and "
        f"{_mean(rows, 'radial', 0):.2f}.",
        f"With {lengths[-1]} transforms the planar flow is nearer than the radial one to {len(nearer)} of "
        f"{counted(len(rows), 'target')}{': ' + ', '.join(nearer) if nearer else ''}.",
        f"Of every flow at least {least:.1%} lies on the grid that the divergence is summed over.",
    )


def _mean(rows: list[Any], flow: str, place: int) -> float:
    """The mean divergence of the flows with so many transforms, by their place among the lengths."""
    return float(sum(row[flow]["kl"][place] for row in rows) / len(rows))


def draw(numbers: Mapping[str, Any]) -> Figure:
    """The targets and the planar flows of all lengths next to them; below, the divergences."""
    lengths, rows = numbers["lengths"], numbers["rows"]
    columns = 2 + len(lengths)
    figure = new_figure(2.3 * columns + 1.2, 2.25 * len(rows))
    axes = figure.subplots(len(rows), columns, squeeze=False, width_ratios=(*[1] * (columns - 1), 1.5))
    for line, row in zip(axes, rows, strict=True):
        shown = [("target", row["density"])]
        shown += [
            (f"{length} planar", density) for length, density in zip(lengths, row["planar"]["densities"], strict=True)
        ]
        for place, (words, density) in zip(line, shown, strict=False):
            side = math.isqrt(len(density))
            place.imshow(torch.tensor(density).reshape(side, side).numpy(), cmap=SHADES, extent=(-REACH, REACH) * 2)
            dress(place, f"{row['target']}: {words}", grid=False)
            place.set_xticks([])
            place.set_yticks([])
        for flow, color in (("planar", PALETTE[0]), ("radial", PALETTE[1])):
            line[-1].plot(lengths, row[flow]["kl"], "o-", color=color, label=flow)
        line[-1].axhline(0, color=MUTED, linewidth=0.8)
        dress(line[-1], "KL divergence", "transforms" if row is rows[-1] else "", "nats")
    legend(axes[0][-1])
    return figure

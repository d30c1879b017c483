"""Spins on a periodic square lattice: bonds, checkerboard sweeps, cluster flips, transfer matrices."""

from __future__ import annotations

import math
from itertools import product
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution, constraints

Number = Tensor | float


def bonds(spins: Tensor) -> Tensor:
    """The sum of the products of all neighbors of each lattice, (B,); every bond counts once.

    A side of two is closed by a second bond.

    >>> bonds(torch.ones(1, 4, 4))
    tensor([32.])
    """
    return (spins * (spins.roll(-1, 1) + spins.roll(-1, 2))).sum((1, 2))


def neighbors(spins: Tensor) -> Tensor:
    """The sum of the four neighbors of each spin, in the shape of the lattices, (B, H, W)."""
    return spins.roll(1, 1) + spins.roll(-1, 1) + spins.roll(1, 2) + spins.roll(-1, 2)


@torch.no_grad()
def checkerboard(
    spins: Tensor, coupling: Number, field: Number, sweeps: int = 1, generator: Generator | None = None
) -> Tensor:
    """Lattices (B, H, W) after sweeps of Gibbs sampling: all black sites given the white ones, then the reverse.

    Where both sides are even, all neighbors of a site are of the other color, so that a color is drawn at once. The
    colors are kept in a tensor each, (B, H, W / 2), in which the neighbors of a site are three that lie next to each
    other in its column, and one to the left or to the right of it.
    """
    up, half = spins > 0, (*spins.shape[:-1], spins.shape[-1] // 2)
    colors = [spins.new_empty(half) for _ in (0, 1)]  # 1 for a spin that is up, 0 for one that is down
    for color, row in product((0, 1), repeat=2):
        colors[color][:, row::2] = up[:, row::2, (color + row) % 2 :: 2]
    bits = torch.empty((colors[0].numel() + 1) // 2, dtype=torch.int64, device=spins.device)
    around = torch.empty_like(colors[0])
    for _ in range(sweeps):
        for color in (0, 1):
            limits = colors[color]  # whose spins are drawn anew in any case; one tensor less to fetch from memory
            _limits(_sum_of_others(colors[1 - color], color, around), coupling, field, limits)
            # 64 random bits for two sites: half as many as random floats take, which are most of the time of a sweep
            uniform = (
                bits.random_(-(2**63), None, generator=generator).view(torch.int32)[: around.numel()].view_as(around)
            )
            torch.lt(uniform, limits, out=limits)
    found = torch.empty_like(spins)
    for color, row in product((0, 1), repeat=2):
        found[:, row::2, (color + row) % 2 :: 2] = colors[color][:, row::2]
    return found.mul_(2).sub_(1)


def _limits(around: Tensor, coupling: Number, field: Number, out: Tensor) -> None:
    r"""The limits below which a random integer of 32 bits sets a site with so many neighbors up, in ``out``.

    They are :math:`2^{31} \tanh(2 J s + h)`, s the neighbors that are up less 2. Without a field this is odd in s, and
    the cubic through its values at 1 and 2 is it, which takes less than half of the time of an exponential.
    """
    if isinstance(field, Tensor) or field != 0:
        torch.mul(around, 4 * coupling, out=out).add_(2 * field - 8 * coupling).sigmoid_().mul_(2**32).sub_(2**31)
        return
    one, two = (2**31 * math.tanh(2 * float(coupling) * neighbors) for neighbors in (1, 2))
    cubic = (two - 2 * one) / 6
    torch.mul(around.sub_(2), around, out=out).mul_(cubic).add_(one - cubic).mul_(around)


def _sum_of_others(other: Tensor, color: int, total: Tensor) -> Tensor:
    """The sum of the four neighbors, all of the other color, of the sites of a color, (B, H, W / 2), in ``total``."""
    torch.add(other[:, 1:], other[:, :-1], out=total[:, 1:])
    torch.add(other[:, 0], other[:, -1], out=total[:, 0])
    total[:, :-1] += other[:, 1:]
    total[:, -1] += other[:, 0]
    left, right = total[:, color::2], total[:, 1 - color :: 2]  # rows in which the fourth is to the left, to the right
    left[:, :, 1:] += other[:, color::2, :-1]
    left[:, :, 0] += other[:, color::2, -1]
    right[:, :, :-1] += other[:, 1 - color :: 2, 1:]
    right[:, :, -1] += other[:, 1 - color :: 2, 0]
    return total


@torch.no_grad()
def wolff(spins: Tensor, coupling: Number, field: Number, generator: Generator | None = None) -> Tensor:
    """Lattices (B, H, W) after one cluster flip each: the cluster of a random site is flipped as a whole.

    A bond that is satisfied joins its spins with the probability 1 - exp(-2 |J|). Without a field the flip is always
    accepted; with one, by the change of its energy.
    """
    count, height, width = spins.shape

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=spins.device, dtype=spins.dtype)

    down, right = (uniform(*spins.shape) < 1 - (-2 * coupling * spins * spins.roll(-1, way)).exp() for way in (1, 2))
    up, left = down.roll(1, 1), right.roll(1, 2)
    place = (uniform(count) * (height * width)).long().clamp_max_(height * width - 1)
    cluster = torch.zeros_like(spins, dtype=torch.bool)
    cluster.view(count, height * width)[torch.arange(count, device=spins.device), place] = True
    size = 0
    while (grown := int(cluster.sum())) > size:
        size = grown
        cluster |= (cluster.roll(1, 1) & up) | (cluster.roll(-1, 1) & down)
        cluster |= (cluster.roll(1, 2) & left) | (cluster.roll(-1, 2) & right)
    rise = 2 * field * (spins * cluster).sum((1, 2))
    flipped = cluster & (uniform(count) < (-rise).exp()).view(-1, 1, 1)
    return torch.where(flipped, -spins, spins)


def log_partition(height: int, width: int, coupling: Tensor, field: Tensor) -> Tensor:
    """The logarithm of the sum of exp(-E) over all lattices, 0-d, as the trace of a power of the transfer matrix.

    Its rows and columns are all states of a row of the shorter side. It is computed in double precision.
    """
    rows, side = max(height, width), min(height, width)
    states = torch.tensor(list(product((-1.0, 1.0), repeat=side)), dtype=torch.float64, device=coupling.device)
    coupling, field = coupling.double(), field.double()
    within = coupling * (states * states.roll(-1, 1)).sum(1) + field * states.sum(1)
    exponents = coupling * (states @ states.T) + 0.5 * (within.unsqueeze(0) + within.unsqueeze(1))
    largest = exponents.detach().logsumexp(1).max()  # no eigenvalue is larger than exp of this
    power = torch.linalg.matrix_power((exponents - largest).exp(), rows)
    log_z: Tensor = rows * largest + power.trace().log()
    return log_z


class Thermodynamics(NamedTuple):
    """Energy, magnetization and heat capacity per spin in equilibrium, in units of the coupling: 0-d tensors."""

    energy: Tensor
    magnetization: Tensor
    heat_capacity: Tensor


def thermodynamics(spins: Tensor, temperature: float, sweeps: int, generator: Generator | None) -> Thermodynamics:
    """Means over the second half of so many sweeps, each with a cluster flip, that begin at these lattices."""
    found = []
    for _ in range(sweeps):
        spins = wolff(checkerboard(spins, 1 / temperature, 0.0, 1, generator), 1 / temperature, 0.0, generator)
        found.append(torch.stack([-bonds(spins), spins.sum((1, 2)).abs()]))
    energy, magnetization = torch.stack(found[sweeps // 2 :], 1).flatten(1)
    count = spins[0].numel()
    return Thermodynamics(energy.mean() / count, magnetization.mean() / count, energy.var() / count / temperature**2)


class UniformSpins(Distribution):
    """So many independent spins, -1 and 1 with equal probabilities."""

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}

    def __init__(self, like: Tensor, spins: int) -> None:
        self.like = like
        super().__init__(event_shape=torch.Size([spins]), validate_args=False)

    def sample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        shape = self._extended_shape(torch.Size(sample_shape))
        return 2 * torch.randint(2, shape, device=self.like.device).to(self.like.dtype) - 1

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.full_like(value[..., 0], -self.event_shape[0] * math.log(2))

"""Hopfield network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, get_args

import torch
from torch import Generator, Tensor

from deepcanon.core import Absorb, Batch, Model, Recipe, Terms, Turn
from deepcanon.core.checks import at_least, flat, one_of

Rule = Literal["hebb", "projection"]


class Hopfield(Model[Batch]):
    r"""An associative memory of binary patterns, which retrieves the stored pattern nearest to a damaged one.

    Also known as: associative memory, content-addressable memory, Amari-Hopfield network.

    .. math:: W_{ij} = \frac1N \sum_\mu \xi^\mu_i \xi^\mu_j, \quad W_{ii} = 0 \qquad (1)

    .. math:: s_i \leftarrow \operatorname{sign} \sum_j W_{ij} s_j \qquad (2)

    .. math:: E(s) = -\tfrac12 s^\top W s \qquad (3)

    The updates (2) are asynchronous, one unit after the other, so the energy never rises; a unit whose local field, the
    sum in (2), is zero keeps its value. (1) is Hebb's rule. It retrieves random patterns nearly unharmed up to about
    :math:`0.138 N` of them, but of patterns that resemble each other, such as digits, only two or three. The projection
    rule (pseudo-inverse rule) stores of each pattern only the residual r that the memory P does not hold yet, so that P
    projects onto all patterns and similar ones come back too; W is then P without its diagonal.

    .. math:: r = \xi - P \xi \qquad (4)

    .. math:: P \leftarrow P + \frac{r r^\top}{r^\top r} \qquad (5)

    A unit is on where x is above 1/2: x may hold zeros and ones, gray values between them, or plus and minus one.
    Outputs have the shape of x and its values: plus and minus one for an example with negative values, else zeros and
    ones.

    References:
        | Neural networks and physical systems with emergent collective computational abilities (Hopfield, 1982),
          https://doi.org/10.1073/pnas.79.8.2554
        | Storing infinite numbers of patterns in a spin-glass model of neural networks (Amit et al., 1985),
          https://doi.org/10.1103/PhysRevLett.55.1530
        | Information storage and retrieval in spin-glass like neural networks (Personnaz et al., 1985),
          https://doi.org/10.1051/jphyslet:01985004608035900

    Arguments:
        features: The number of units :math:`N`.
        patterns: How many examples of a data set training stores: the first that come. ``store`` itself has no limit.
        rule: How patterns are stored: ``hebb`` or ``projection``.
    """

    recipe = Recipe(epochs=1)

    DAMAGE = 0.15
    """The share of the units that ``gallery`` flips."""

    products: Tensor
    memory: Tensor
    stored: Tensor

    def __init__(self, features: int, patterns: int = 2, rule: Rule = "hebb") -> None:
        super().__init__()
        at_least(1, features=features, patterns=patterns)
        one_of(get_args(Rule), rule=rule)
        self.features = features
        self.rule = rule
        # N times the couplings, diagonal included: whole numbers under Hebb's rule, so sums are exact in any order.
        self.register_buffer("products", torch.zeros(features, features))
        self.register_buffer("memory", torch.zeros(patterns, features))  # the first patterns, to show them again
        self.register_buffer("stored", torch.tensor(0))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randint(0, 2, (2, 32), generator=torch.Generator().manual_seed(0))
        return cls(features=32, patterns=2), Batch(2.0 * x - 1)

    @property
    def couplings(self) -> Tensor:
        """The weights W, (N, N): symmetric, with a zero diagonal."""
        return (self.products - self.products.diag().diag()) / self.features  # eq. (1)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Absorb(self.learn)]

    def learn(self, batch: Batch) -> None:
        """Store examples of the batch, as long as there are fewer than ``patterns``."""
        self.store(batch.x[: max(0, len(self.memory) - int(self.stored))])

    @torch.no_grad()
    def store(self, x: Tensor | Batch) -> None:
        """Add all these patterns to the memory."""
        spins = self._spins(x.x if isinstance(x, Batch) else x)
        if self.rule == "hebb":
            self.products += spins.T @ spins  # eq. (1)
        else:
            for spin in spins:
                self._project(spin)
        first = int(self.stored)
        self.memory[first : first + len(spins)] = spins[: max(0, len(self.memory) - first)]
        self.stored += len(spins)

    def loss(self, batch: Batch) -> Terms:
        return {"energy": self.energy(batch.x).mean()}

    def energy(self, x: Tensor) -> Tensor:
        """The energy E of each pattern, (B,)."""
        spins = self._spins(x)
        return -0.5 * (spins @ self.couplings * spins).sum(-1)  # eq. (3)

    @torch.no_grad()
    def retrieve(self, x: Tensor, *, update_steps: int = 10, generator: Generator | None = None) -> Tensor:
        """The patterns to which the asynchronous updates (2) lead from ``x``.

        An update step updates every unit once: in an order drawn from ``generator``, without one from first to last.
        """
        spins, couplings = self._spins(x), self.couplings
        for _ in range(update_steps):
            for i in self._order(generator):
                field = spins @ couplings[i]  # the local field, (B,)
                spins[:, i] = torch.where(field == 0, spins[:, i], field.sign())  # eq. (2)
        return _like(x, spins)

    def reconstruct(self, x: Tensor) -> Tensor:
        """The patterns that ``retrieve`` finds from ``x``."""
        return self.retrieve(x)

    def forward(self, x: Tensor) -> Tensor:
        """The patterns that ``retrieve`` finds from ``x``."""
        return self.retrieve(x)

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Stored patterns, damaged, and retrieved: at most as many as ``x`` has, in its shape and values."""
        stored = self.memory[: min(len(x), int(self.stored))]
        flips = torch.rand(stored.shape, generator=generator, device=stored.device) < self.DAMAGE
        damaged = torch.where(flips, -stored, stored)
        rows = {"stored": stored, "damaged": damaged, "retrieved": self.retrieve(damaged, generator=generator)}
        return {name: _like(x[: len(row)], row) for name, row in rows.items()}

    def _project(self, spin: Tensor) -> None:
        residual = spin - self.products @ spin / self.features  # eq. (4)
        square = residual @ residual
        stored = square < 1e-6 * self.features  # up to rounding; dividing would store noise
        self.products += torch.where(stored, 0, self.features / square) * torch.outer(residual, residual)  # eq. (5)

    def _spins(self, x: Tensor) -> Tensor:
        return torch.where(flat(x, self.features) > 0.5, 1.0, -1.0).to(self.products.dtype)  # (B, N)

    def _order(self, generator: Generator | None) -> list[int]:
        if generator is None:
            return list(range(self.features))
        return torch.randperm(self.features, generator=generator, device=generator.device).tolist()


def _like(x: Tensor, spins: Tensor) -> Tensor:
    """The spins in the shape of ``x``, with -1 for off where an example has negative values, else with 0."""
    off = torch.where((x.flatten(1) < 0).any(1, keepdim=True), -1.0, 0.0).to(spins.dtype)
    return torch.where(spins > 0, 1, off).reshape(x.shape)

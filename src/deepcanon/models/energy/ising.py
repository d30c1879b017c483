"""Ising model."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Distribution
from torch.nn.functional import softplus

from deepcanon.core import Batch, Recipe, Support, Terms, UsageError
from deepcanon.core.checks import at_least, flat, one_of
from deepcanon.models.energy._energy import Energy
from deepcanon.models.energy._lattice import (
    Thermodynamics,
    UniformSpins,
    bonds,
    checkerboard,
    log_partition,
    neighbors,
    thermodynamics,
    wolff,
)

Objective = Literal["pseudo_likelihood", "contrastive_divergence"]


class Ising(Energy[Batch]):
    r"""Spins on a periodic square lattice, each drawn towards its four neighbors and by a field.

    Also known as: Lenz-Ising model, Ising spin lattice.

    .. math:: E(s) = -J \sum_{\langle ij \rangle} s_i s_j - h \sum_i s_i, \qquad s_i = \pm 1 \qquad (1)

    The coupling J and the field h are those divided by the temperature, so that :math:`p(s) = e^{-E(s)} / Z` and a
    lattice with unit couplings has the temperature 1 / J. Without a field, spins of an infinite lattice align below
    :math:`T_c = 2 / \log(1 + \sqrt2) = 2.269` (Onsager). A sweep of Gibbs sampling draws all black sites of a
    checkerboard given the white ones, then the white ones.

    .. math:: p(s_i = 1 \mid \text{others}) = \sigma \left( 2 J \sum_{j \sim i} s_j + 2 h \right) \qquad (2)

    Near and below :math:`T_c` sweeps alone mix slowly, so that each is followed by a cluster flip (Wolff).

    Where the shorter side has at most ``MOST_SPINS``, log Z is exact, by the transfer matrix T between its states, and
    the metric is the ``nll``; else it is estimated by annealing from independent spins.

    .. math:: Z = \operatorname{tr} T^H, \qquad
              T_{rr'} = e^{J r \cdot r' + \frac12 A(r) + \frac12 A(r')}, \quad
              A(r) = J \sum_j r_j r_{j+1} + h \sum_j r_j \qquad (3)

    J and h are learned from lattices by the pseudo-likelihood (4), which needs no Z, is convex, and has its optimum at
    the truth if there are enough data; or by contrastive divergence with persistent chains.

    .. math:: -\sum_i \log p(s_i \mid \text{others}) \qquad (4)

    References:
        | Crystal Statistics. I. A Two-Dimensional Model with an Order-Disorder Transition (Onsager, 1944),
          https://doi.org/10.1103/PhysRev.65.117
        | Statistical Analysis of Non-Lattice Data (Besag, 1975), https://doi.org/10.2307/2987782
        | Collective Monte Carlo Updating for Spin Systems (Wolff, 1989), https://doi.org/10.1103/PhysRevLett.62.361

    Arguments:
        height: The number of rows, which is even.
        width: The number of columns, which is even.
        objective: The loss: ``pseudo_likelihood`` or ``contrastive_divergence``.
        with_field: Whether the field is learned; else it is 0.
        clusters: Whether a cluster is flipped after each sweep of a Markov chain.
        sweeps: The number of sweeps of the chain between two steps of learning by contrastive divergence.
        chains: The number of persistent chains of contrastive divergence.
    """

    recipe = Recipe(lr=0.05, schedule="linear", batch_size=100, epochs=20, keep_weights="last")

    default_data = "ising"

    MCMC_STEPS = 200

    MOST_SPINS = 10
    """The longest shorter side of which all states are written out."""

    chains: Tensor
    field: Tensor

    def __init__(
        self,
        height: int,
        width: int,
        objective: Objective = "pseudo_likelihood",
        with_field: bool = True,
        clusters: bool = True,
        sweeps: int = 5,
        chains: int = 100,
    ) -> None:
        super().__init__()
        at_least(2, height=height, width=width)
        at_least(1, sweeps=sweeps, chains=chains)
        one_of(get_args(Objective), objective=objective)
        if height % 2 or width % 2:
            raise UsageError(f"a periodic checkerboard has even sides, and this lattice has {height}x{width} spins")
        self.height, self.width = height, width
        self.objective, self.clusters, self.sweeps = objective, clusters, sweeps
        self.coupling = nn.Parameter(torch.zeros(()))  # J
        if with_field:
            self.field = nn.Parameter(torch.zeros(()))  # h
        else:
            self.register_buffer("field", torch.zeros(()))
        if objective == "contrastive_divergence":
            self.register_buffer("chains", 2.0 * torch.randint(2, (chains, height * width)) - 1)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randint(2, (32, 8), generator=torch.Generator().manual_seed(0))
        return cls(height=2, width=4), Batch(2.0 * x - 1)

    @property
    def support(self) -> Support:
        return "spins"

    def loss(self, batch: Batch) -> Terms:
        if self.objective == "contrastive_divergence":
            return super().loss(batch)
        return {"pseudo_nll": self.pseudo_nll(batch.x).mean()}

    def pseudo_nll(self, x: Tensor) -> Tensor:
        """The negative log-pseudo-likelihood of each lattice, (B,)."""
        spins = self._lattice(x)
        log_odds = 2 * (self.coupling * neighbors(spins) + self.field)  # eq. (2)
        return softplus(-spins * log_odds).sum((1, 2))  # eq. (4)

    def energy(self, x: Tensor) -> Tensor:
        """The energy E of each lattice, divided by the temperature, (B,)."""
        spins = self._lattice(x)
        return -self.coupling * bonds(spins) - self.field * spins.sum((1, 2))  # eq. (1)

    @torch.no_grad()
    def negatives(self, x: Tensor) -> Tensor:
        """Samples of the negative phase: the lattices of the chains, which go on from where they are in training."""
        spins = self.chains
        for _ in range(self.sweeps):
            spins = self.transition(spins, 1)
        if self.training:
            self.chains.copy_(spins)
        return spins

    @property
    def enumerable(self) -> bool:
        return min(self.height, self.width) <= self.MOST_SPINS

    def exact_log_partition(self) -> Tensor | None:
        """log Z by the transfer matrix (3), 0-d; None where a row has too many states."""
        if not self.enumerable:
            return None
        return log_partition(self.height, self.width, self.coupling, self.field).to(self.coupling)  # eq. (3)

    def _metrics_of(self, terms: Terms, batch: Batch) -> Terms:
        return super()._metrics_of(terms, batch) | {"coupling": self.coupling.detach(), "field": self.field.detach()}

    def base(self) -> Distribution:
        """Independent spins."""
        return UniformSpins(self.coupling, self.height * self.width)

    def log_tempered(self, x: Tensor, beta: float) -> Tensor:
        return -beta * self.energy(x)

    def transition(self, x: Tensor, beta: float, generator: Generator | None = None) -> Tensor:
        """A sweep of checkerboard Gibbs sampling, and a cluster flip where there are ``clusters``."""
        coupling, field = beta * self.coupling.detach(), beta * self.field.detach()
        spins = checkerboard(self._lattice(x), coupling, field, 1, generator)  # eq. (2)
        if self.clusters:
            spins = wolff(spins, coupling, field, generator)
        return spins.flatten(1)

    def thermodynamics(
        self, temperature: float, *, lattices: int = 16, sweeps: int = 400, generator: Generator | None = None
    ) -> Thermodynamics:
        """Energy, magnetization and heat capacity per spin of such lattices with unit couplings and without a field.

        Chains start in order, all spins up. The heat capacity is the variance of the energy over the squared
        temperature.
        """
        at_least(1, lattices=lattices)
        at_least(2, sweeps=sweeps)
        if not temperature > 0:
            raise UsageError(f"temperature must be above 0 (got {temperature:g})")
        ordered = self.coupling.new_ones(lattices, self.height, self.width)
        return thermodynamics(ordered, temperature, sweeps, generator)

    def _lattice(self, x: Tensor) -> Tensor:
        spins: Tensor = flat(x, self.height * self.width).unflatten(1, (self.height, self.width))
        return spins

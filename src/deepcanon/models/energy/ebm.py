"""Energy-based model (EBM)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Self

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution, Independent, Normal

from deepcanon.core import Batch, Model, Recipe, Support, Terms, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.core.precision import full
from deepcanon.models.energy._energy import Energy
from deepcanon.models.energy._moves import hmc, langevin_step
from deepcanon.nn import Standardize
from deepcanon.nn.activations import Activation
from deepcanon.nn.dense import dense


class EBM(Energy[Batch]):
    r"""A density of real values whose energy is a network, trained with samples of Langevin dynamics.

    Also known as: deep energy model, deep energy-based model.

    .. math:: p(x) = e^{-E(x)} / Z, \qquad E(x) = f_\theta(z) + \frac{1}{2 s^2} \lVert z \rVert^2 + \log \sigma
              \qquad (1)

    z are the standardized examples and :math:`\log \sigma` the logarithm of the change of units. The square is that of
    a broad Gaussian with the standard deviation s: it makes p a density whatever the network is, and is what annealing
    and chains start from. The loss is the contrastive divergence: the energy of the data less that of chains of
    Langevin dynamics, with a small penalty on the squares of f, which holds the energies near zero.

    .. math:: z \leftarrow z - \tfrac{\epsilon^2}{2} \nabla_z E(z) + \epsilon \xi, \quad \xi \sim N(0, I) \qquad (2)

    Chains go on from a replay buffer (persistent), a part of which begins anew at each step; without a buffer they
    start at the Gaussian every time and are short (short-run), which learns a sampler rather than a density. Step sizes
    are in units of the standard deviation of the data.

    ``sample`` and annealed importance sampling use Hamiltonian Monte Carlo, which leaves the density exactly invariant.
    With one or two features log Z is a sum over a fine grid, and ``log_prob`` is exact; else it is an estimate.

    .. math:: \nabla_x \log p(x) = -\nabla_x E(x) \qquad (3)

    References:
        | Implicit Generation and Generalization in Energy-Based Models (Du and Mordatch, 2019),
          https://arxiv.org/abs/1903.08689
        | On the Anatomy of MCMC-Based Maximum Likelihood Learning of Energy-Based Models (Nijkamp et al., 2019),
          https://arxiv.org/abs/1903.12370

    Arguments:
        features: The dimension of the data.
        hidden: The widths of the hidden layers of the network f.
        activation: The activation of the hidden layers by name.
        model: Any model of the same features with one output, which is then f in place of the layers.
        langevin_steps: The number of Langevin steps between two steps of learning.
        step_size: The step size :math:`\epsilon` of Langevin dynamics.
        buffer_size: The number of chains in the replay buffer; with 0 chains are short runs.
        reinitialized: The share of the chains that begins anew at each step of learning.
        base_std: The standard deviation s of the Gaussian.
        penalty: The weight of the squares of f in the loss.
    """

    recipe = Recipe(lr=1e-2, schedule="cosine", batch_size=256, epochs=60)
    default_data = "moons"

    TEMPERATURES = 200
    MCMC_STEPS = 100
    LEAPFROG_STEPS = 5
    GRID = 200
    """How many points the grid has along each axis; along a line, the square of it."""

    replay: Tensor

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...] = (64, 64),
        activation: Activation = "silu",
        model: Model[Any] | None = None,
        langevin_steps: int = 40,
        step_size: float = 0.1,
        buffer_size: int = 2048,
        reinitialized: float = 0.05,
        base_std: float = 2.0,
        penalty: float = 1e-3,
    ) -> None:
        super().__init__()
        at_least(1, features=features, langevin_steps=langevin_steps)
        at_least(0, buffer_size=buffer_size)
        if not (step_size > 0 and base_std > 0 and penalty >= 0 and 0 <= reinitialized <= 1):
            raise UsageError(
                "step_size and base_std must be above 0, penalty at least 0, and reinitialized a share from 0 to 1 "
                f"(got {step_size:g}, {base_std:g}, {penalty:g} and {reinitialized:g})"
            )
        if model is not None and (hidden, activation) != ((64, 64), "silu"):
            raise UsageError("hidden and activation are those of the network that is used where no model is given")
        self.features, self.langevin_steps, self.step_size = features, langevin_steps, step_size
        self.reinitialized, self.base_std, self.penalty = reinitialized, base_std, penalty
        self.net = dense(features, 1, hidden, activation=activation) if model is None else model
        self.standardize = Standardize(features)
        if buffer_size:
            self.register_buffer("replay", base_std * torch.randn(buffer_size, features))
        self.buffer_size = buffer_size

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0))
        return cls(features=2, hidden=(8,), langevin_steps=5, buffer_size=64), Batch(2 * x + 1)

    @property
    def support(self) -> Support:
        return "real"

    def prepare(self, data: Iterable[Batch]) -> None:
        """Take the mean and the standard deviation of each feature, by which data are standardized."""
        super().prepare(data)
        self.standardize.fit(data)

    def network(self, z: Tensor) -> Tensor:
        """The network f of standardized examples, (B,)."""
        found: Tensor = full(self.net(z))
        if found.numel() != len(z):
            raise UsageError(f"an energy is one number for each example; the network gives {tuple(found.shape[1:])}")
        return found.reshape(len(z))

    def loss(self, batch: Batch) -> Terms:
        z = self._states(batch.x)
        both = torch.cat([z, self._run_chains(len(z)).to(z)])
        f = self.network(both)
        squares = 0.5 * both.square().sum(1) / self.base_std**2
        data, chains = (f + squares).split([len(z), len(both) - len(z)])
        return {
            "contrastive_divergence": data.mean() - chains.mean(),
            "penalty": self.penalty * f.square().mean(),
        }

    def energy(self, x: Tensor) -> Tensor:
        """The energy E of each example, (B,)."""
        self.check_values(x)
        z = self._states(x)
        return -self.log_tempered(z, 1) - self.standardize.log_det()  # eq. (1)

    def score(self, x: Tensor) -> Tensor:
        """The gradient of the log-density at each example, in the shape of ``x``."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.energy(x).sum(), x)
        return -slope  # eq. (3)

    @torch.no_grad()
    def negatives(self, x: Tensor) -> Tensor:
        """Samples of the negative phase: the examples at the end of as many chains as there are examples."""
        return self._examples(self._run_chains(len(x)))

    def _run_chains(self, count: int) -> Tensor:
        """States of chains after ``langevin_steps``, (count, features); those of the buffer go on in training."""
        mean = self.standardize.mean
        fresh = self.base_std * torch.randn(count, self.features, dtype=mean.dtype, device=mean.device)
        if not self.buffer_size:
            return self._langevin(fresh)
        rows = torch.randint(self.buffer_size, (count,), device=mean.device)
        again = torch.rand(count, 1, device=mean.device) < self.reinitialized
        z = self._langevin(torch.where(again, fresh, self.replay[rows]))
        if self.training:
            self.replay[rows] = z
        return z

    def _langevin(self, z: Tensor) -> Tensor:
        for _ in range(self.langevin_steps):
            z = langevin_step(z, self._slope(z), self.step_size)  # eq. (2)
        return z

    def _slope(self, z: Tensor) -> Tensor:
        """The gradient of the energy at states; that of the Gaussian by hand, which halves the time."""
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.network(z).sum(), z)
        return torch.add(slope, z.detach(), alpha=1 / self.base_std**2)

    def _states(self, x: Tensor) -> Tensor:
        z: Tensor = self.standardize(flat(x, self.features))
        return z

    def _examples(self, states: Tensor) -> Tensor:
        return self.standardize.inverse(states)

    def base(self) -> Distribution:
        """The broad Gaussian, of standardized examples."""
        std = torch.full_like(self.standardize.mean, self.base_std)
        return Independent(Normal(torch.zeros_like(std), std, validate_args=False), 1)

    def log_tempered(self, x: Tensor, beta: float) -> Tensor:
        """The logarithm of the Gaussian, up to a constant, times exp(-f) to the power of beta, at states."""
        return -beta * self.network(x) - 0.5 * x.square().sum(1) / self.base_std**2

    def transition(self, x: Tensor, beta: float, generator: Generator | None = None) -> Tensor:
        """A move of Hamiltonian Monte Carlo."""
        return hmc(lambda z: -self.log_tempered(z, beta), x, self.step_size, self.LEAPFROG_STEPS, generator).x

    @property
    def enumerable(self) -> bool:
        return self.features <= 2

    def exact_log_partition(self) -> Tensor | None:
        """log Z as a sum over a grid of standardized states, 0-d; None of more than two features."""
        if not self.enumerable:
            return None
        mean, reach = self.standardize.mean, 5 * self.base_std
        points = self.GRID if self.features == 2 else self.GRID**2
        line = (torch.arange(points, dtype=mean.dtype, device=mean.device) + 0.5) * (2 * reach / points) - reach
        grid = torch.cartesian_prod(*[line] * self.features).reshape(-1, self.features)
        cell = self.features * math.log(2 * reach / points)
        parts = [self.log_tempered(part, 1).logsumexp(0) for part in grid.split(2**16)]
        return torch.stack(parts).logsumexp(0) + cell

"""Energies of visible and hidden binary units together, whose hidden units do not sum out."""

from __future__ import annotations

import math
from abc import abstractmethod
from itertools import pairwise

import torch
from torch import Generator, Tensor
from torch.distributions import Bernoulli, Distribution, Independent

from deepcanon.core import Support, Terms
from deepcanon.core.checks import at_least, flat
from deepcanon.core.turn import B
from deepcanon.models.energy._energy import Annealed, log_mean_exp
from deepcanon.models.energy._rbm import bernoulli, binary_states


class JointEnergy(Annealed[B]):
    r"""An energy of binary visible units v and hidden units h, coupled in any way, :math:`p(v, h) = e^{-E(v, h)} / Z`.

    A leaf gives ``joint_energy``. Where hidden units are coupled among themselves they do not sum out, and both phases
    of learning are sampled: the positive phase by Gibbs sampling of the hidden units with the visible ones clamped to
    the data, the negative phase by persistent chains of all units. The energy of the former states less that of the
    latter, which all count as constants, has the gradient of the negative log-likelihood.

    .. math:: \nabla (-\log p(v)) = E_{h \sim p(h \mid v)} \nabla E(v, h) - E_{(v, h) \sim p} \nabla E(v, h) \qquad (1)

    .. math:: \log p(v) = \log \sum_h e^{-E(v, h)} - \log Z \qquad (2)

    Both sums are written out where there are at most ``MOST`` states of all units. Else both are estimated by annealed
    importance sampling from uniform units, the first one with the visible units clamped.

    References:
        | A Learning Algorithm for Boltzmann Machines (Ackley et al., 1985), https://doi.org/10.1207/s15516709cog0901_7
        | Training Restricted Boltzmann Machines using Approximations to the Likelihood Gradient (Tieleman, 2008),
          https://doi.org/10.1145/1390156.1390290
    """

    surrogate = True

    MOST = 2**20
    """The most states of all units that are written out."""

    chains: Tensor

    def __init__(self, features: int, units: int, gibbs_steps: int, clamped_steps: int, chains: int) -> None:
        super().__init__()
        at_least(1, features=features, units=units, gibbs_steps=gibbs_steps, clamped_steps=clamped_steps, chains=chains)
        self.features, self.units = features, units
        self.gibbs_steps, self.clamped_steps = gibbs_steps, clamped_steps
        self.register_buffer("chains", torch.randint(2, (chains, features + units)).float())

    @abstractmethod
    def joint_energy(self, x: Tensor, h: Tensor) -> Tensor:
        """The energy E of visible states, (B, features), together with hidden states, (B, units): (B,)."""

    @property
    def support(self) -> Support:
        return "binary"

    @property
    def enumerable(self) -> bool:
        return self.features + self.units <= math.log2(self.MOST)

    def loss(self, batch: B) -> Terms:
        positive, negative = self._states(batch.x), self.negatives()
        return {
            "contrastive_divergence": self._energy_of(positive).mean() - self._energy_of(negative).mean()
        }  # eq. (1)

    @torch.no_grad()
    def negatives(self) -> Tensor:
        """States of the negative phase: those of the chains, which go on from where they are if this is training."""
        states = self.chains
        for _ in range(self.gibbs_steps):
            states = self.transition(states, 1)
        if self.training:
            self.chains.copy_(states)
        return states

    @torch.no_grad()
    def _states(self, x: Tensor) -> Tensor:
        """Visible states with hidden ones drawn given them, by ``clamped_steps`` of clamped Gibbs sampling."""
        x = flat(x, self.features)
        states = torch.cat([x, bernoulli(x.new_full((len(x), self.units), 0.5))], 1)
        for _ in range(self.clamped_steps):
            states = self._sweep(states, 1, None, clamped=True)
        return states

    def _examples(self, states: Tensor) -> Tensor:
        return states[:, : self.features]

    def base(self) -> Distribution:
        """Uniform states of all units."""
        zeros = torch.zeros_like(self.chains[0])
        return Independent(Bernoulli(logits=zeros, validate_args=False), 1, validate_args=False)

    def log_tempered(self, x: Tensor, beta: float) -> Tensor:
        return -beta * self._energy_of(x)

    def transition(self, x: Tensor, beta: float, generator: Generator | None = None) -> Tensor:
        """One sweep of Gibbs sampling over all units."""
        return self._sweep(x, beta, generator)

    @torch.no_grad()
    def _sweep(self, states: Tensor, beta: float, generator: Generator | None, *, clamped: bool = False) -> Tensor:
        """Each unit drawn given all others, one after the other; if clamped, the hidden ones only."""
        states = states.clone()
        for unit in range(self.features if clamped else 0, self.features + self.units):
            states[:, unit] = bernoulli((beta * self._log_odds(states, unit)).sigmoid(), generator)
        return states

    def _log_odds(self, states: Tensor, unit: int) -> Tensor:
        """The log-odds of a unit to be on given all others, (B,): how far its energy falls when it is switched on."""
        on, off = states.clone(), states.clone()
        on[:, unit], off[:, unit] = 1, 0
        return self._energy_of(off) - self._energy_of(on)

    def exact_log_partition(self) -> Tensor | None:
        """log Z as a sum over all states, 0-d; None where there are too many."""
        if not self.enumerable:
            return None
        parts = [(-self._energy_of(states)).logsumexp(0) for states in binary_states(self.chains.shape[1], self.chains)]
        return torch.stack(parts).logsumexp(0)

    def _log_prob(self, x: Tensor) -> Tensor:
        x = flat(x, self.features)
        log_z = self.exact_log_partition()
        assert log_z is not None  # the likelihood is exact
        sums = []
        for hidden in binary_states(self.units, self.chains):
            pairs = x.repeat_interleave(len(hidden), 0), hidden.repeat(len(x), 1)
            sums.append((-self.joint_energy(*pairs)).reshape(len(x), len(hidden)).logsumexp(1))
        return torch.stack(sums).logsumexp(0) - log_z  # eq. (2)

    @torch.no_grad()
    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        chains = self.CHAINS if samples is None else samples
        x = flat(x, self.features).repeat_interleave(chains, 0)
        uniform = torch.full((len(x), self.units), 0.5, dtype=x.dtype, device=x.device)
        states, total = torch.cat([x, bernoulli(uniform, generator)], 1), x.new_zeros(len(x))
        betas = self._betas(None)
        for before, beta in pairwise(betas):
            total += self.log_tempered(states, beta) - self.log_tempered(states, before)
            states = self._sweep(states, beta, generator, clamped=True)
        clamped = torch.stack([log_mean_exp(weights).value for weights in total.reshape(-1, chains)])
        log_z = self.log_partition(chains=chains, generator=generator).value
        return clamped + self.units * math.log(2) - log_z  # eq. (2)

    def _energy_of(self, states: Tensor) -> Tensor:
        return self.joint_energy(*states.split([self.features, self.units], 1))

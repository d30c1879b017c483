"""Boltzmann machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Recipe
from deepcanon.core.checks import flat, one_of
from deepcanon.distributions.base_rates import log_odds
from deepcanon.models.energy._joint import JointEnergy

Inference = Literal["gibbs", "mean_field"]


class BoltzmannMachine(JointEnergy[Batch]):
    r"""A network of binary units, visible and hidden, in which every unit is coupled to every other one.

    Also known as: general Boltzmann machine, fully connected Boltzmann machine.

    .. math:: E(s) = -\sum_{i < j} W_{ij} s_i s_j - \sum_i b_i s_i, \qquad s = (v, h), \quad s_i \in \{0, 1\} \qquad (1)

    .. math:: p(s_i = 1 \mid \text{others}) = \sigma \left( b_i + \sum_{j \ne i} W_{ij} s_j \right) \qquad (2)

    W is symmetric and has a zero diagonal. Learning raises W where two units are on together in the data more often
    than in the model: the difference of a positive phase, with the visible units clamped to the data, and a negative
    phase, in which persistent chains run freely.

    .. math:: -\frac{\partial \log p(v)}{\partial W_{ij}} =
              E_{p(s)} s_i s_j - E_{p(h \mid v)} s_i s_j \qquad (3)

    Since hidden units are coupled to each other, p(h | v) has no closed form. It is drawn by Gibbs sampling (2), or
    taken for the nearest distribution q of independent units by mean-field iteration, each step of which raises a lower
    bound of log p(v).

    .. math:: m_i \leftarrow \sigma \left( b_i + \sum_{j \ne i} W_{ij} m_j \right), \qquad
              m_j = v_j \text{ for visible units} \qquad (4)

    With at most 20 units altogether ``log_prob`` is exact, and the metric is the ``nll``; with more it is estimated by
    annealed importance sampling, which takes long.

    References:
        | A Learning Algorithm for Boltzmann Machines (Ackley et al., 1985), https://doi.org/10.1207/s15516709cog0901_7
        | A Mean Field Theory Learning Algorithm for Neural Networks (Peterson and Anderson, 1987),
          https://www.complex-systems.com/abstracts/v01_i05_a06/

    Arguments:
        features: The number of visible units.
        units: The number of hidden units.
        inference: How the positive phase finds the hidden units: ``gibbs`` or ``mean_field``.
        gibbs_steps: The number of Gibbs sweeps of the chains between two steps of learning.
        clamped_steps: The number of sweeps, of Gibbs sampling or of mean-field iteration, of the positive phase.
        chains: The number of persistent chains.
    """

    recipe = Recipe(lr=0.02, schedule="linear", batch_size=100, epochs=100)
    default_data = "bars-and-stripes"

    MCMC_STEPS = 200

    def __init__(
        self,
        features: int,
        units: int = 8,
        inference: Inference = "gibbs",
        gibbs_steps: int = 2,
        clamped_steps: int = 5,
        chains: int = 100,
    ) -> None:
        one_of(get_args(Inference), inference=inference)
        super().__init__(features, units, gibbs_steps, clamped_steps, chains)
        self.inference = inference
        self.weight = nn.Parameter(0.1 * torch.randn(features + units, features + units))  # W above its diagonal
        self.bias = nn.Parameter(torch.zeros(features + units))  # b

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.rand(32, 4, generator=torch.Generator().manual_seed(0)).round()
        return cls(features=4, units=2, chains=50), Batch(x)

    @property
    def couplings(self) -> Tensor:
        """The weights W of all pairs of units: symmetric, with a zero diagonal."""
        upper = self.weight.triu(1)
        return upper + upper.T

    @torch.no_grad()
    def prepare(self, data: Iterable[Batch]) -> None:
        """Initialize the visible biases by the base rates of the data."""
        self.bias[: self.features] = log_odds(data, self.features, self.name())

    def joint_energy(self, x: Tensor, h: Tensor) -> Tensor:
        s = torch.cat([x, h], 1)
        return -(s * (s @ self.weight.triu(1).T)).sum(1) - s @ self.bias  # eq. (1)

    def encode(self, x: Tensor) -> Tensor:
        """The mean-field means of the hidden units, (B, units): the nearest independent units to p(h | v)."""
        x = flat(x, self.features)
        couplings = self.couplings[self.features :]
        state = torch.cat([x, x.new_full((len(x), self.units), 0.5)], 1)
        for _ in range(self.clamped_steps):
            for row, unit in zip(couplings, range(self.features, self.features + self.units), strict=True):
                mean = (self.bias[unit] + state @ row).sigmoid()  # eq. (4)
                state = torch.cat([state[:, :unit], mean.unsqueeze(1), state[:, unit + 1 :]], 1)
        return state[:, self.features :]

    def bound(self, x: Tensor) -> Tensor:
        """The lower bound of log p(v) + log Z by the mean-field means, (B,): their entropy less their mean energy."""
        means = self.encode(x)
        entropy = -(torch.xlogy(means, means) + torch.xlogy(1 - means, 1 - means)).sum(1)
        return entropy - self.joint_energy(flat(x, self.features), means)

    @torch.no_grad()
    def _states(self, x: Tensor) -> Tensor:
        """Visible states with hidden ones, or with their means: (1) is linear in each unit, so its mean is at them."""
        if self.inference == "gibbs":
            return super()._states(x)
        return torch.cat([flat(x, self.features), self.encode(x)], 1)  # eq. (3)

    def _log_odds(self, states: Tensor, unit: int) -> Tensor:
        above, below = self.weight[:unit, unit], self.weight[unit, unit + 1 :]
        return self.bias[unit] + states[:, :unit] @ above + states[:, unit + 1 :] @ below  # eq. (2)

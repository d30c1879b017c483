"""Energies of coupled hidden units: a small Boltzmann machine against the table of all its states."""

from typing import Self

import pytest
import torch
from torch import Generator, Tensor, nn

from deepcanon import laws
from deepcanon.core import Batch
from deepcanon.models.energy._joint import JointEnergy


class Boltzmann(JointEnergy[Batch]):
    r"""A fully connected Boltzmann machine of binary units, visible and hidden.

    .. math:: E(s) = -\tfrac12 s^\top W s - b^\top s, \qquad s = (v, h) \qquad (1)

    References:
        | A Learning Algorithm for Boltzmann Machines (Ackley et al., 1985), https://doi.org/10.1207/s15516709cog0901_7

    Arguments:
        features: The number of visible units.
        units: The number of hidden units.
        chains: The number of persistent chains.
    """

    MCMC_STEPS = 60

    def __init__(self, features: int, units: int = 2, chains: int = 50) -> None:
        super().__init__(features, units, 1, 5, chains)
        self.weight = nn.Parameter(0.1 * torch.randn(features + units, features + units))
        self.bias = nn.Parameter(torch.zeros(features + units))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(4), Batch(torch.rand(32, 4, generator=Generator().manual_seed(0)).round())

    def couplings(self) -> Tensor:
        upper = self.weight.triu(1)
        return upper + upper.T

    def joint_energy(self, x: Tensor, h: Tensor) -> Tensor:
        s = torch.cat([x, h], 1)
        return -0.5 * (s * (s @ self.couplings())).sum(1) - s @ self.bias  # eq. (1)

    def _log_odds(self, states: Tensor, unit: int) -> Tensor:
        return states @ self.couplings()[unit] + self.bias[unit]


def machine(**sizes: int) -> tuple[Boltzmann, Batch, Tensor, Tensor]:
    """A machine with strong couplings, data, all visible states, and the table of p(v, h)."""
    torch.manual_seed(0)
    model = Boltzmann(3, 2, **sizes).double()
    nn.init.normal_(model.weight)
    nn.init.normal_(model.bias)
    bits = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 5)
    symmetric = model.couplings().detach()
    energy = -0.5 * torch.einsum("bi,ij,bj->b", bits, symmetric, bits) - bits @ model.bias.detach()
    table = (-energy).softmax(0).reshape(8, 4)
    batch = Batch(bits.reshape(8, 4, 5)[:, 0, :3][torch.tensor([0, 3, 3, 5, 6, 7])])
    return model, batch, bits.reshape(8, 4, 5)[:, 0, :3], table


def test_the_likelihood_is_that_of_the_table_of_all_states() -> None:
    model, _, visible, table = machine()
    torch.testing.assert_close(model.log_prob(visible).detach(), table.sum(1).log())


def test_the_log_odds_are_the_fall_of_the_energy() -> None:
    model, *_ = machine()
    states = torch.rand(6, 5, dtype=torch.float64).round()
    for unit in range(5):
        torch.testing.assert_close(model._log_odds(states, unit), JointEnergy._log_odds(model, states, unit))


def test_the_clamped_phase_draws_hidden_units_given_the_visible_ones() -> None:
    model, _, visible, table = machine()
    states = model._states(visible.repeat(4000, 1)).reshape(4000, 8, 5)
    assert torch.equal(states[..., :3], visible.expand(4000, 8, 3))
    number = (2 * states[..., 3] + states[..., 4]).long()
    shares = torch.stack([(number == state).double().mean(0) for state in range(4)], 1)
    torch.testing.assert_close(shares, table / table.sum(1, keepdim=True), rtol=0, atol=0.04)


def test_the_sampled_phases_have_the_gradient_of_the_exact_likelihood() -> None:
    model, batch, *_ = machine(chains=4000)
    wanted = torch.autograd.grad(-model.log_prob(batch.x).mean(), [model.weight, model.bias])
    for _ in range(30):
        model.negatives()  # until the chains have forgotten where they were
    many = Batch(batch.x.repeat(700, 1))
    found = torch.autograd.grad(model.loss(many)["contrastive_divergence"], [model.weight, model.bias])
    for gradient, exact in zip(found, wanted, strict=True):
        torch.testing.assert_close(gradient, exact, rtol=0, atol=0.05)
    assert float(wanted[0].abs().max()) > 0.1


def test_what_is_not_written_out_is_estimated() -> None:
    model, _, visible, table = machine()
    model.MOST, model.TEMPERATURES = 2, 100
    assert model.likelihood_kind == "estimate"
    found = model.log_prob(visible, samples=200, generator=Generator().manual_seed(0))
    torch.testing.assert_close(found, table.sum(1).log(), rtol=0, atol=0.1)


@pytest.mark.slow
def test_a_boltzmann_machine_keeps_all_laws() -> None:
    assert laws.kinds_of(Boltzmann) == ["contract", "discrete"]
    torch.manual_seed(0)
    outcomes = laws.check(Boltzmann)
    assert not [each for each in outcomes if not each.holds], laws.report(outcomes)

"""Energies of coupled hidden units: a small Boltzmann machine against the table of all its states."""

from typing import Any

import torch
from torch import Generator, Tensor, nn

from deepcanon.core import Batch
from deepcanon.models.energy._joint import JointEnergy
from deepcanon.models.energy.boltzmann_machine import BoltzmannMachine


def machine(**sizes: Any) -> tuple[BoltzmannMachine, Batch, Tensor, Tensor]:
    """A machine with strong couplings, data, all visible states, and the table of p(v, h)."""
    torch.manual_seed(0)
    model = BoltzmannMachine(3, 2, gibbs_steps=1, **sizes).double()
    nn.init.normal_(model.weight)
    nn.init.normal_(model.bias)
    bits = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 5)
    symmetric = model.couplings.detach()
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

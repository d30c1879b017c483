"""The Boltzmann machine against the table of all its states, and against the spins that it is another writing of."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.data import load_data
from deepcanon.models.energy.boltzmann_machine import BoltzmannMachine
from deepcanon.models.energy.ising import Ising


def states(units: int) -> Tensor:
    return torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * units)


def machine(features: int = 3, units: int = 3, scale: float = 1.0, **arguments: Any) -> BoltzmannMachine:
    torch.manual_seed(0)
    model = BoltzmannMachine(features, units, **arguments).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=scale)
    return model


def table(model: BoltzmannMachine) -> Tensor:
    """The energies of all states, pair by pair, (visible states, hidden states)."""
    every, weight, bias = states(model.features + model.units), model.weight.detach(), model.bias.detach()
    energy = -every @ bias
    for i in range(every.shape[1]):
        for j in range(i):
            energy = energy - weight[j, i] * every[:, i] * every[:, j]
    return energy.reshape(2**model.features, 2**model.units)


def test_the_likelihood_is_the_sum_over_hidden_states() -> None:
    model = machine()
    energies = table(model)
    expected = (-energies).logsumexp(1) - (-energies).flatten().logsumexp(0)
    torch.testing.assert_close(model.log_prob(states(3)).detach(), expected)


def test_a_lattice_of_spins_is_a_machine_of_bits() -> None:
    """With s = 2 v - 1 the couplings are W = 4 J and the biases 2 h - 2 sum of J over the bonds of a unit."""
    coupling, field = 0.3, 0.2
    ising, model = Ising(2, 4).double(), machine(8, 1)
    with torch.no_grad():
        ising.coupling.fill_(coupling)
        ising.field.fill_(field)
        model.weight.zero_()
        for i in range(2):
            for j in range(4):
                for k, m in (((i + 1) % 2, j), (i, (j + 1) % 4)):
                    first, second = sorted((4 * i + j, 4 * k + m))
                    model.weight[first, second] += 4 * coupling
        model.bias[:8] = 2 * field - 2 * 4 * coupling
        model.bias[8] = 0
    torch.testing.assert_close(model.log_prob(states(8)), ising.log_prob(2 * states(8) - 1))


def test_the_mean_field_is_the_best_of_all_independent_units() -> None:
    """Its means are a fixed point, its bound stays below log p + log Z, and moving one mean never raises it."""
    model, x = machine(scale=0.7, clamped_steps=200), states(3)
    means = model.encode(x).detach()
    bound, exact = model.bound(x).detach(), (-table(model)).logsumexp(1)
    assert (bound < exact).all()
    assert (exact - bound).max() < 0.2
    for unit in range(3):
        for step in (-0.05, 0.05):
            moved = means.clone()
            moved[:, unit] = (moved[:, unit] + step).clamp(0.001, 0.999)
            entropy = -(moved * moved.log() + (1 - moved) * (1 - moved).log()).sum(1)
            assert (entropy - model.joint_energy(x, moved) <= bound + 1e-12).all()


def test_the_mean_field_is_exact_for_hidden_units_without_couplings_among_them() -> None:
    model = machine()
    with torch.no_grad():
        model.weight[3:, 3:] = 0
    torch.testing.assert_close(model.bound(states(3)).detach(), (-table(model)).logsumexp(1))
    posterior = (-table(model)).softmax(1) @ states(3)
    torch.testing.assert_close(model.encode(states(3)).detach(), posterior)


def test_the_positive_phase_of_mean_field_has_the_mean_energy() -> None:
    model, x = machine(inference="mean_field"), states(3)
    found, means = model.joint_energy(*model._states(x).split([3, 3], 1)), model.encode(x)
    each = states(3)
    weights = torch.stack([(means * h + (1 - means) * (1 - h)).prod(1) for h in each])
    energies = torch.stack([model.joint_energy(x, h.expand(8, 3)) for h in each])
    torch.testing.assert_close(found, (weights * energies).sum(0))


def test_samples_follow_the_table() -> None:
    model = machine(scale=0.8)
    expected = (-table(model)).flatten().softmax(0).reshape(8, 8).sum(1)
    drawn = model.sample(4000, generator=Generator().manual_seed(0))
    shares = (drawn @ torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64)).long().bincount(minlength=8) / 4000
    assert ((shares - expected).abs() / (expected * (1 - expected) / 4000).sqrt()).max() < 4.5


@pytest.mark.slow
def test_planted_couplings_of_visible_units_are_recovered() -> None:
    """Without use of its hidden unit the machine is log-linear, and its likelihood has one optimum."""
    truth = machine(4, 1, scale=1.2)
    with torch.no_grad():
        truth.weight[:, 4] = 0
    torch.manual_seed(1)
    found = BoltzmannMachine(4, 1, chains=500)
    x = truth.sample(4000, generator=Generator().manual_seed(0)).float()
    dc.fit(found, dc.from_tensors(x), quiet=True, epochs=25, batch_size=200, lr=0.05, evaluate=False)
    test = states(4)
    expected = truth.log_prob(test)
    divergence = (expected.exp() * (expected - found.double().log_prob(test))).sum()
    assert 0 <= divergence.item() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["gibbs", "mean_field"])
def test_bars_and_stripes_are_learned_far_better_than_pixel_by_pixel(inference: Any) -> None:
    torch.manual_seed(0)
    model = BoltzmannMachine(9, 6, inference=inference)
    data = load_data("bars-and-stripes:binary")
    dc.fit(model, data, quiet=True, epochs=20, evaluate=False)
    nll = model.metrics(Batch(data.split("test").x))["nll"].item()
    assert 2.639 < nll < 4.0  # log 14 at best, 6.24 pixel by pixel


def test_other_ways_of_inference_are_refused() -> None:
    with pytest.raises(UsageError, match="inference must be one of gibbs, mean_field"):
        BoltzmannMachine(3, 2, inference="exact")  # type: ignore[arg-type]

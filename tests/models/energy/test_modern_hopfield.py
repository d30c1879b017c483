"""The modern Hopfield network: an update is a step of torch's attention, and goes down the energy."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor
from torch.nn.functional import scaled_dot_product_attention

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.data import load_data
from deepcanon.models.energy.hopfield import Hopfield
from deepcanon.models.energy.modern_hopfield import ModernHopfield


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=Generator().manual_seed(seed))


def memory(x: Tensor, beta: float, room: int = 0) -> ModernHopfield:
    model = ModernHopfield(x.shape[1], len(x) + room, beta).double()
    model.store(x)
    return model


@pytest.mark.parametrize("room", [0, 3])
def test_one_update_is_one_step_of_attention(room: int) -> None:
    x, state = normal(7, 5), normal(4, 5, seed=1)
    model = memory(x, 1 / math.sqrt(5), room)
    torch.testing.assert_close(model.retrieve(state, update_steps=1), scaled_dot_product_attention(state, x, x))
    twice = scaled_dot_product_attention(scaled_dot_product_attention(state, x, x), x, x)
    torch.testing.assert_close(model.retrieve(state, update_steps=2), twice)


def test_the_update_is_the_concave_convex_step_of_the_energy() -> None:
    """Without the square the energy has minus the updated state as its gradient; with it, it is stationary there."""
    model, state = memory(normal(6, 4), 0.7), normal(3, 4, seed=1).requires_grad_()
    (slope,) = torch.autograd.grad(model.energy(state).sum(), state)
    torch.testing.assert_close(state.detach() - slope, model.retrieve(state.detach(), update_steps=1))
    settled = model.retrieve(state.detach(), update_steps=500).requires_grad_()
    (slope,) = torch.autograd.grad(model.energy(settled).sum(), settled)
    assert slope.abs().max() < 1e-6


@pytest.mark.parametrize("beta", [0.1, 1.0, 10.0])
def test_the_energy_never_rises_and_stays_within_the_bounds_of_the_paper(beta: float) -> None:
    """0 <= E <= 2 M^2 for states inside the ball of the patterns (Ramsauer et al., lemma A1)."""
    x = normal(20, 6)
    model, radius = memory(x, beta), x.norm(dim=1).max()
    state = normal(100, 6, seed=1)
    state = state * (radius / state.norm(dim=1, keepdim=True)).clamp_max(1)
    energies = torch.stack([model.energy(model.retrieve(state, update_steps=steps)) for steps in range(6)])
    assert energies.diff(dim=0).max() <= 1e-12
    assert energies.min() >= 0
    assert energies.max() <= 2 * radius.square()


def test_the_error_of_one_update_is_below_the_bound_of_the_paper() -> None:
    """2 e (N - 1) M exp(-beta (separation - 2 max(distance, image distance) M)) (Ramsauer et al., theorem 5)."""
    x = math.sqrt(32) * torch.nn.functional.normalize(normal(10, 32), dim=1)
    model, radius = memory(x, 1.0), math.sqrt(32)
    products = x @ x.T
    separation = products.diagonal() - (products - 1e9 * torch.eye(10)).max(1).values
    state = x + 1e-3 * normal(10, 32, seed=2)
    image = model.retrieve(state, update_steps=1)
    away = torch.maximum((state - x).norm(dim=1), (image - x).norm(dim=1))
    bound = 2 * math.e * 9 * radius * (-(separation - 2 * away * radius)).exp()
    assert ((image - x).norm(dim=1) <= bound).all()
    assert bound.max() < 1e-2


def test_far_more_patterns_are_stored_than_there_are_dimensions() -> None:
    """1,000 random patterns of 40 units with a tenth flipped come back, of which the classical network holds none."""
    x = normal(1000, 40).sign()
    flips = torch.rand(x.shape, generator=Generator().manual_seed(1)) < 0.1
    damaged = torch.where(flips, -x, x)
    found = memory(x, 2.0).retrieve(damaged, update_steps=3).sign()
    assert ((found == x).all(1)).double().mean() > 0.95
    classical = Hopfield(40).double()
    classical.store(x)
    assert ((classical.retrieve(damaged[:50], update_steps=3) == x[:50]).all(1)).double().mean() < 0.05


def test_a_low_inverse_temperature_leads_to_the_mean_of_all_patterns() -> None:
    x = normal(12, 5)
    torch.testing.assert_close(memory(x, 1e-9).retrieve(x, update_steps=1), x.mean(0).expand(12, 5), rtol=0, atol=1e-6)


def test_training_stores_the_first_patterns_in_the_units_of_the_data() -> None:
    torch.manual_seed(0)
    data, model = load_data("digits"), ModernHopfield(64, patterns=30, beta=4)
    dc.fit(model, data, quiet=True)
    assert int(model.stored) == 30
    shown = model.gallery(data.train.x[:10], generator=Generator().manual_seed(0))
    assert list(shown) == ["stored", "damaged", "retrieved"]
    assert shown["retrieved"].shape == data.train.x[:10].shape
    error = [(shown[name] - shown["stored"]).square().flatten(1).sum(1) for name in ("damaged", "retrieved")]
    assert (error[1] < 0.1).double().mean() >= 0.8
    assert error[0].min() > 1
    known = torch.cdist(shown["stored"].flatten(1), data.train.x.flatten(1)).min(1).values
    assert known.max() < 1e-3


def test_a_full_memory_and_other_temperatures_are_refused() -> None:
    model = memory(normal(3, 4), 1.0)
    with pytest.raises(UsageError, match="room for 3 patterns and holds 3: 2 more do not fit"):
        model.store(Batch(normal(2, 4)))
    with pytest.raises(UsageError, match="beta must be above 0"):
        ModernHopfield(4, beta=0)
    assert torch.equal(ModernHopfield(3).retrieve(torch.ones(2, 3)), torch.zeros(2, 3))  # nothing is stored

"""The Hopfield net: an energy that never rises, Hebb's capacity, and patterns that come back."""

import pytest
import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, UsageError
from deepcanon.data import load_data
from deepcanon.models.energy.hopfield import Hopfield, Rule
from deepcanon.train import fit


def spins(rows: int, features: int, seed: int = 0) -> Tensor:
    bits = torch.randint(0, 2, (rows, features), generator=Generator().manual_seed(seed))
    return 2.0 * bits - 1


def with_random_couplings(features: int, seed: int) -> Hopfield:
    """A net of real-valued couplings, as no stored patterns would give them."""
    model = Hopfield(features).double()
    noise = torch.randn(features, features, generator=Generator().manual_seed(seed), dtype=torch.float64)
    model.products.copy_(features * (noise + noise.T))
    return model


def test_hebbs_couplings_and_the_energy_are_sums_over_pairs() -> None:
    patterns, x = spins(3, 7).double(), spins(4, 7, seed=1).double()
    model = Hopfield(7).double()
    model.store(patterns)
    energies = []
    for s in x:
        energy = 0.0
        for i in range(7):
            for j in range(7):
                weight = 0.0 if i == j else sum(float(p[i] * p[j]) for p in patterns) / 7
                assert model.couplings[i, j].item() == pytest.approx(weight)
                energy -= 0.5 * weight * float(s[i] * s[j])
        energies.append(energy)
    torch.testing.assert_close(model.energy(x), torch.tensor(energies, dtype=torch.float64))
    assert model.loss(Batch(x))["energy"].item() == pytest.approx(sum(energies) / 4)


def test_the_energy_never_rises_with_any_single_update(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = with_random_couplings(20, seed=0), spins(64, 20).double()
    energy, flips = model.energy(x), 0
    for unit in list(range(20)) * 3:
        monkeypatch.setattr(model, "_order", lambda generator, unit=unit: [unit])
        reached = model.retrieve(x, update_steps=1)
        changed = (reached != x).any(1)
        now = model.energy(reached)
        assert (now[changed] < energy[changed]).all()
        assert torch.equal(reached[:, :unit], x[:, :unit])
        assert torch.equal(reached[:, unit + 1 :], x[:, unit + 1 :])
        x, energy, flips = reached, now, flips + int(changed.sum())
    assert flips > 100


def test_updates_end_where_every_unit_agrees_with_its_local_field() -> None:
    model, x = with_random_couplings(20, seed=1), spins(64, 20).double()
    settled = model.retrieve(x, update_steps=100)
    assert ((settled @ model.couplings) * settled >= 0).all()
    assert torch.equal(model.retrieve(settled, update_steps=1), settled)
    assert not torch.equal(settled, x)


def test_a_unit_without_a_local_field_keeps_its_value() -> None:
    x = spins(8, 6)
    assert torch.equal(Hopfield(6).retrieve(x), x)


@pytest.mark.slow
@pytest.mark.parametrize(("share", "least", "most"), [(0.10, 0.99, 1.0), (0.25, 0.0, 0.6)])
def test_800_units_hold_80_random_patterns_but_not_200(share: float, least: float, most: float) -> None:
    patterns = spins(round(share * 800), 800)
    model = Hopfield(800)
    model.store(patterns)
    overlap = (model.retrieve(patterns, update_steps=15) * patterns).mean().item()
    assert least < overlap <= most


@pytest.mark.parametrize(("rule", "tolerance"), [("hebb", 0.0), ("projection", 1e-6)])
def test_batches_store_what_all_at_once_store(rule: Rule, tolerance: float) -> None:
    patterns = spins(9, 30)
    whole, parts = Hopfield(30, rule=rule), Hopfield(30, rule=rule)
    whole.store(patterns)
    for part in patterns.split([2, 5, 2]):
        parts.store(Batch(part))
    torch.testing.assert_close(whole.couplings, parts.couplings, rtol=0, atol=tolerance)
    for model in (whole, parts):
        assert model.stored.item() == 9
        assert torch.equal(model.memory, patterns[:2])


def test_the_projection_rule_projects_onto_the_patterns() -> None:
    similar = torch.where(torch.rand(5, 40, generator=Generator().manual_seed(0)) < 0.2, -1.0, 1.0).double()
    patterns = torch.cat([similar, similar[:1]])  # one comes twice
    model = Hopfield(40, rule="projection").double()
    model.store(patterns)
    oracle = torch.linalg.pinv(similar) @ similar
    torch.testing.assert_close(model.products / 40, oracle, rtol=1e-9, atol=1e-9)
    assert torch.equal(model.retrieve(patterns), patterns)


def test_all_codes_of_a_pattern_mean_the_same_and_outputs_keep_the_code_and_the_shape() -> None:
    x = spins(3, 12)
    model = Hopfield(12)
    model.store(x)
    damaged = x.clone()
    damaged[:, 0] *= -1
    bits = (damaged + 1) / 2
    gray = 0.2 + 0.6 * bits
    settled = model.retrieve(damaged)
    assert set(settled.unique().tolist()) == {-1.0, 1.0}
    for code in (bits, gray):
        torch.testing.assert_close(model.energy(code), model.energy(damaged))
        images = model.reconstruct(code.reshape(3, 1, 3, 4))
        assert torch.equal(images.flatten(1), (settled + 1) / 2)
        assert images.shape == (3, 1, 3, 4)


def test_the_order_of_the_units_follows_the_generator() -> None:
    model, x = with_random_couplings(30, seed=2), spins(64, 30).double()
    first, again, other = (
        model.retrieve(x, update_steps=1, generator=Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(model.retrieve(x), model.retrieve(x))
    alone = torch.cat([model.retrieve(row[None]) for row in x])
    assert torch.equal(model.retrieve(x), alone)


def test_training_stores_the_first_examples_and_no_more() -> None:
    x = spins(10, 16)
    model = Hopfield(16, patterns=3)
    for start in (0, 2, 4):
        model.learn(Batch(x[start : start + 2]))
    assert model.stored.item() == 3
    assert torch.equal(model.memory, x[:3])


@pytest.mark.parametrize(("rule", "patterns"), [("hebb", 2), ("projection", 5)])
def test_digits_come_back_from_damage(rule: Rule, patterns: int) -> None:
    data = load_data("digits")
    model = Hopfield(features=64, patterns=patterns, rule=rule)
    fit(model, data, quiet=True)
    rows = model.gallery(data.split("test").x[:16], generator=Generator().manual_seed(0))
    assert [len(row) for row in rows.values()] == [patterns] * 3
    assert rows["stored"].shape[1:] == (1, 8, 8)
    assert 0.05 < (rows["damaged"] != rows["stored"]).double().mean() < 0.25
    assert torch.equal(rows["retrieved"], rows["stored"])
    training = {tuple(row) for row in (data.train.x > 0.5).double().flatten(1).tolist()}
    assert {tuple(row) for row in rows["stored"].flatten(1).tolist()} <= training


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="patterns must be at least 1"):
        Hopfield(4, patterns=0)
    with pytest.raises(UsageError, match="rule must be one of hebb, projection"):
        Hopfield(4, rule="oja")  # type: ignore[arg-type]

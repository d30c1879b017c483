"""The Ising model against enumeration, Kaufman's torus, Onsager's energy and Yang's magnetization."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.core import Batch, DataError, UsageError
from deepcanon.data import load_data
from deepcanon.models.energy._lattice import bonds, checkerboard, log_partition, wolff
from deepcanon.models.energy.ising import Ising
from tests.onsager import kaufman_log_partition, onsager_energy, yang_magnetization


def lattices(height: int, width: int) -> Tensor:
    """All lattices, as rows."""
    return torch.tensor(list(product((-1.0, 1.0), repeat=height * width)), dtype=torch.float64)


def model(height: int, width: int, coupling: float, field: float = 0.0, **arguments: Any) -> Ising:
    found = Ising(height, width, **arguments).double()
    with torch.no_grad():
        found.coupling.fill_(coupling)
        found.field.fill_(field)
    return found


def by_hand(height: int, width: int, coupling: float, field: float) -> Tensor:
    """The energies of all lattices as a sum over the bonds of the torus, one by one."""
    s = lattices(height, width).unflatten(1, (height, width))
    pairs = [((i, j), ((i + 1) % height, j)) for i in range(height) for j in range(width)]
    pairs += [((i, j), (i, (j + 1) % width)) for i in range(height) for j in range(width)]
    total: Tensor = -field * s.sum((1, 2))
    for (i, j), (row, column) in pairs:
        total = total - coupling * s[:, i, j] * s[:, row, column]
    return total


@pytest.mark.parametrize(("height", "width"), [(4, 4), (2, 4), (6, 2)])
def test_energies_and_the_partition_function_are_those_of_the_enumeration(height: int, width: int) -> None:
    energies, ising = by_hand(height, width, 0.37, -0.2), model(height, width, 0.37, -0.2)
    torch.testing.assert_close(ising.energy(lattices(height, width)), energies)
    torch.testing.assert_close(ising.exact_log_partition(), (-energies).logsumexp(0))
    torch.testing.assert_close(ising.log_prob(lattices(height, width)).detach(), (-energies).log_softmax(0))


@pytest.mark.parametrize("coupling", [0.1, 0.44, 0.7])
def test_the_transfer_matrix_gives_the_torus_of_kaufman(coupling: float) -> None:
    found = model(8, 8, coupling).exact_log_partition()
    assert found is not None
    assert found.item() == pytest.approx(kaufman_log_partition(8, coupling), rel=1e-12)


def test_the_partition_function_of_a_torus_does_not_depend_on_which_side_is_the_shorter() -> None:
    one, other = (model(*sides, 0.5, 0.1).exact_log_partition() for sides in ((4, 8), (8, 4)))
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("moves", ["checkerboard", "wolff", "wolff_in_a_field", "wolff_antiferromagnet"])
def test_moves_leave_the_distribution_as_it_is(moves: str) -> None:
    """From exact samples of 2x4 lattices, as many of each lattice come out as go in."""
    coupling = -0.3 if moves == "wolff_antiferromagnet" else 0.3
    field = 0.0 if moves == "wolff" else 0.15
    every, expected = lattices(2, 4), (-by_hand(2, 4, coupling, field)).softmax(0)
    count, generator = 40000, Generator().manual_seed(0)
    start = every[torch.multinomial(expected, count, replacement=True, generator=generator)].unflatten(1, (2, 4))
    move = checkerboard if moves == "checkerboard" else wolff
    drawn = move(start, coupling, field, generator=generator)
    assert not torch.equal(drawn, start)
    powers = 2 ** torch.arange(7, -1, -1)
    shares = ((drawn.flatten(1) > 0) * powers).sum(1).bincount(minlength=256)
    error = (expected * (1 - expected) * count).sqrt()
    chi_square = ((shares - count * expected).square() / (count * expected)).sum()
    assert float(chi_square) < 255 + 5 * (2 * 255) ** 0.5
    assert float(((shares - count * expected) / error).abs().max()) < 5


def test_a_sweep_draws_each_spin_given_its_neighbors() -> None:
    """Of white sites after a sweep, given the black ones, the share that is up is the sigmoid (2)."""
    generator = Generator().manual_seed(0)
    start = 2.0 * torch.randint(2, (1, 4, 4), generator=generator).double() - 1
    found = checkerboard(start.expand(60000, 4, 4), 0.4, 0.1, generator=generator)
    row, column = 1, 2  # white, as its sum is odd
    around = found[:, 0, 2] + found[:, 2, 2] + found[:, 1, 1] + found[:, 1, 3]
    for value in (-4, -2, 0, 2, 4):
        up = (found[around == value, row, column] > 0).double()
        expected = torch.sigmoid(torch.tensor(2 * 0.4 * value + 2 * 0.1, dtype=torch.float64))
        assert abs(up.mean() - expected) < 5 * (expected * (1 - expected) / len(up)).sqrt()


@pytest.mark.slow
def test_annealing_and_samples_agree_with_the_enumeration() -> None:
    ising = model(4, 4, 0.4, 0.05)
    exact = ising.exact_log_partition()
    assert exact is not None
    found = ising.annealed_log_partition(chains=200, temperatures=100, generator=Generator().manual_seed(0))
    assert 0 < found.error < 0.1
    assert abs(found.value - exact) < 4 * found.error
    energies = by_hand(4, 4, 0.4, 0.05)
    mean = ((-energies).softmax(0) * energies).sum()
    drawn = ising.energy(ising.sample(2000, generator=Generator().manual_seed(0)))
    assert abs(drawn.mean() - mean) < 4 * drawn.std() / 2000**0.5


@pytest.mark.slow
def test_a_large_lattice_has_the_energy_of_onsager_and_the_magnetization_of_yang() -> None:
    """At T = 1.8, well below the critical temperature, 64x64 spins from an ordered start."""
    k, generator = 1 / 1.8, Generator().manual_seed(0)
    spins, energies, magnetizations = torch.ones(4, 64, 64), [], []
    spins = checkerboard(spins, k, 0.0, 100, generator)
    for _ in range(60):
        spins = wolff(checkerboard(spins, k, 0.0, 5, generator), k, 0.0, generator)
        energies.append(-bonds(spins) / 64**2)
        magnetizations.append(spins.mean((1, 2)).abs())
    assert torch.stack(energies).mean().item() == pytest.approx(onsager_energy(k), abs=0.004)
    assert torch.stack(magnetizations).mean().item() == pytest.approx(yang_magnetization(k), abs=0.003)
    assert onsager_energy(0.5) == pytest.approx(-1.7456, abs=5e-5)  # the figures of the literature at T = 2
    assert yang_magnetization(0.5) == pytest.approx(0.9113, abs=5e-5)


@pytest.mark.parametrize("temperature", [1.8, 2.5, 4.0])
def test_thermodynamics_are_those_of_the_enumeration(temperature: float) -> None:
    energies = by_hand(4, 4, 1.0, 0.0)
    p = (-energies / temperature).softmax(0)
    mean = (p * energies).sum()
    heat = (p * (energies - mean).square()).sum() / (16 * temperature**2)
    magnetization = (p * lattices(4, 4).mean(1).abs()).sum()
    found = Ising(4, 4).thermodynamics(temperature, lattices=400, sweeps=60, generator=Generator().manual_seed(0))
    assert found.energy.item() == pytest.approx(mean.item() / 16, abs=0.015)
    assert found.magnetization.item() == pytest.approx(magnetization.item(), abs=0.01)
    assert found.heat_capacity.item() == pytest.approx(heat.item(), rel=0.06)


def test_the_pseudo_likelihood_is_the_product_of_the_conditionals_of_the_table() -> None:
    ising, every = model(2, 4, 0.3, -0.1), lattices(2, 4)
    log_p = (-by_hand(2, 4, 0.3, -0.1)).log_softmax(0)
    expected = torch.zeros(256, dtype=torch.float64)
    for i in range(8):
        flipped = torch.arange(256) ^ (1 << (7 - i))
        expected += torch.logaddexp(log_p, log_p[flipped]) - log_p
    torch.testing.assert_close(ising.pseudo_nll(every).detach(), expected)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["pseudo_likelihood", "contrastive_divergence"])
def test_the_coupling_of_drawn_lattices_is_recovered(objective: Any) -> None:
    torch.manual_seed(0)
    data = load_data("ising:temperature=3:spins")
    ising = Ising(8, 8, objective=objective, chains=200)
    dc.fit(ising, data, quiet=True, epochs=15, evaluate=False)
    exact = model(8, 8, 1 / 3)
    information = torch.autograd.functional.hessian(
        lambda both: log_partition(8, 8, both[0], both[1]), torch.tensor([1 / 3, 0.0], dtype=torch.float64)
    )
    error = (torch.linalg.inv(information).diagonal() / len(data.train)).sqrt()  # of the maximum likelihood
    assert abs(ising.coupling.item() - 1 / 3) < 6 * error[0]
    assert abs(ising.field.item()) < 6 * error[1]
    assert error[0] < 0.01
    x = data.split("test").x
    assert ising.log_prob(x).mean().item() == pytest.approx(exact.log_prob(x.double()).mean().item(), abs=0.1)
    assert {"nll", "coupling", "field"} <= set(ising.metrics(Batch(x)))


def test_wide_lattices_are_estimated_and_odd_ones_refused() -> None:
    assert Ising(12, 12).likelihood_kind == "estimate"
    assert Ising(12, 12).exact_log_partition() is None
    assert Ising(4, 12).likelihood_kind == "exact"
    with pytest.raises(UsageError, match="even sides, and this lattice has 3x4"):
        Ising(3, 4)
    with pytest.raises(UsageError, match="objective must be one of"):
        Ising(4, 4, objective="moments")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="models spins"):
        Ising(2, 2).log_prob(torch.zeros(1, 1, 2, 2))

"""Moves against distributions with known moments: exact draws stay exact, and a missing correction is seen."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scipy import stats
from torch import Generator, Tensor
from torch.distributions import Categorical, Distribution, MixtureSameFamily, MultivariateNormal

from deepcanon.core import UsageError
from deepcanon.models.energy._moves import hmc, langevin, mala

RARE = 1e-6
Step = Callable[[Callable[[Tensor], Tensor], Tensor, Generator], Tensor]

GAUSSIAN = MultivariateNormal(
    torch.tensor([1.0, -2.0], dtype=torch.float64), torch.tensor([[2.0, 0.6], [0.6, 0.5]], dtype=torch.float64)
)
MIXTURE = MixtureSameFamily(
    Categorical(torch.tensor([0.3, 0.7], dtype=torch.float64)),
    MultivariateNormal(
        torch.tensor([[-1.5, 0.0], [1.0, 1.0]], dtype=torch.float64),
        torch.diag_embed(torch.tensor([[0.3, 1.0], [1.0, 0.4]], dtype=torch.float64)),
    ),
)


def energy_of(target: Distribution) -> Callable[[Tensor], Tensor]:
    def energy(x: Tensor) -> Tensor:
        found: Tensor = -target.log_prob(x)
        return found

    return energy


def exact_draws(target: MultivariateNormal | MixtureSameFamily, n: int) -> Tensor:
    torch.manual_seed(0)
    return target.sample((n,))


def drift(target: MultivariateNormal | MixtureSameFamily, step: Step, moves: int = 20) -> float:
    """The smallest p-value of tests that exact draws keep their distribution over these moves.

    Along several directions the draws before and after are compared (Kolmogorov-Smirnov), and so are their energies.
    """
    generator = Generator().manual_seed(1)
    energy = energy_of(target)
    start, x = exact_draws(target, 4000), exact_draws(target, 8000)[4000:]
    for _ in range(moves):
        x = step(energy, x, generator)
    angles = torch.arange(4, dtype=torch.float64) * math.pi / 4
    directions = torch.stack([angles.cos(), angles.sin()])
    pairs = [*zip((start @ directions).T, (x @ directions).T, strict=True), (energy(start), energy(x))]
    return min(float(stats.ks_2samp(before.numpy(), after.numpy()).pvalue) for before, after in pairs)


def with_mala(energy: Callable[[Tensor], Tensor], x: Tensor, generator: Generator) -> Tensor:
    return mala(energy, x, 0.8, generator).x


def with_hmc(energy: Callable[[Tensor], Tensor], x: Tensor, generator: Generator) -> Tensor:
    return hmc(energy, x, 0.5, 5, generator).x


def without_correction(energy: Callable[[Tensor], Tensor], x: Tensor, generator: Generator) -> Tensor:
    return langevin(energy, x, 0.8, generator)


def at_another_temperature(energy: Callable[[Tensor], Tensor], x: Tensor, generator: Generator) -> Tensor:
    return mala(lambda y: 0.8 * energy(y), x, 0.8, generator).x


@pytest.mark.parametrize("target", [GAUSSIAN, MIXTURE], ids=["gaussian", "mixture"])
@pytest.mark.parametrize("step", [with_mala, with_hmc])
def test_adjusted_moves_leave_the_distribution_invariant(target: MultivariateNormal, step: Step) -> None:
    assert drift(target, step) > RARE


@pytest.mark.parametrize("target", [GAUSSIAN, MIXTURE], ids=["gaussian", "mixture"])
@pytest.mark.parametrize("step", [without_correction, at_another_temperature])
def test_a_missing_metropolis_correction_and_a_wrong_energy_are_caught(target: MultivariateNormal, step: Step) -> None:
    assert drift(target, step) < RARE


@pytest.mark.parametrize("step", [with_mala, with_hmc])
def test_chains_from_elsewhere_find_the_moments_of_the_gaussian(step: Step) -> None:
    generator = Generator().manual_seed(0)
    x = torch.full((4000, 2), 3.0, dtype=torch.float64)
    for _ in range(60):
        x = step(energy_of(GAUSSIAN), x, generator)
    error = (GAUSSIAN.variance / len(x)).sqrt()
    assert ((x.mean(0) - GAUSSIAN.mean).abs() / error).max() < 5
    torch.testing.assert_close(x.T.cov(), GAUSSIAN.covariance_matrix, rtol=0.1, atol=0.05)


@pytest.mark.parametrize("step_size", [0.3, 1.0])
def test_the_variance_of_unadjusted_langevin_is_off_by_as_much_as_the_step_says(step_size: float) -> None:
    generator = Generator().manual_seed(0)
    x = torch.randn(20000, 1, dtype=torch.float64, generator=generator)
    for _ in range(int(12 / step_size**2)):
        x = langevin(lambda y: y.square().sum(-1) / 2, x, step_size, generator)
    expected = 1 / (1 - step_size**2 / 4)
    assert float(x.var()) == pytest.approx(expected, abs=5 * expected * math.sqrt(2 / len(x)))


def test_the_acceptance_rate_is_that_of_the_metropolis_test_by_quadrature() -> None:
    """Of one MALA step on a standard normal, whose rise of the total energy is a function of place and momentum."""
    step = 1.2
    grid = torch.linspace(-7, 7, 1401, dtype=torch.float64)
    x, p = torch.meshgrid(grid, grid, indexing="ij")
    there = x + step * (p - step / 2 * x)
    momentum = p - step / 2 * x - step / 2 * there
    rise = (there**2 + momentum**2 - x**2 - p**2) / 2
    density = torch.exp(-(x**2 + p**2) / 2) / (2 * math.pi) * (grid[1] - grid[0]) ** 2
    expected = float((density * (-rise).clamp_max(0).exp()).sum())
    generator = Generator().manual_seed(0)
    start = torch.randn(40000, 1, dtype=torch.float64, generator=generator)
    move = mala(lambda y: y.square().sum(-1) / 2, start, step, generator)
    assert float(move.acceptance.mean()) == pytest.approx(expected, abs=0.005)
    moved = (move.x != start).double().mean()
    assert float(moved) == pytest.approx(expected, abs=0.012)


def test_small_steps_are_accepted_and_energies_that_overflow_are_not() -> None:
    x = torch.randn(100, 3, 2, dtype=torch.float64, generator=Generator().manual_seed(0))
    careful = hmc(lambda y: y.flatten(1).square().sum(1) / 2, x, 1e-3, 4, Generator().manual_seed(0))
    assert careful.acceptance.min() > 0.999
    assert careful.x.shape == x.shape
    wild = hmc(lambda y: y.flatten(1).pow(4).sum(1), x, 1e3, 3, Generator().manual_seed(0))
    assert torch.equal(wild.x, x)
    with pytest.raises(UsageError, match="leapfrog_steps must be at least 1"):
        hmc(lambda y: y.sum(-1), x, 0.1, 0)

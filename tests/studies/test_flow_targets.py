"""Flows fitted to a density: the targets against scipy's integrals, and a target that the flow has exactly."""

import math

import pytest
import torch
from scipy.integrate import dblquad
from torch import Tensor

import deepcanon as dc
from deepcanon.studies.flow_targets import TARGETS, cell, fitted, flow_targets, grid_points, normalized


@pytest.mark.slow
def test_the_constants_of_the_targets_are_those_of_scipy() -> None:
    """What lies beyond the grid is less than a thousandth."""
    points = 80
    for energy in (TARGETS["ring"], TARGETS["fork"]):
        values = -energy(grid_points(points))
        log_z = float((values - normalized(values, points))[0])
        at = lambda y, x, e=energy: math.exp(-float(e(torch.tensor([x, y], dtype=torch.float64))))  # noqa: E731
        exact = dblquad(at, -5.5, 5.5, -5.5, 5.5, epsabs=1e-2, epsrel=1e-2)[0]
        assert log_z == pytest.approx(math.log(exact), abs=3e-3)


def test_the_paper_s_energies_at_points_computed_by_hand() -> None:
    x = torch.tensor([[1.0, 1.0]], dtype=torch.float64)  # where the sine is 1, the bump 3 and the fork 1.5
    assert float(TARGETS["wave"](x)) == pytest.approx(0)
    assert float(TARGETS["bump"](x)) == pytest.approx(-math.log(1 + math.exp(-0.5 * (3 / 0.35) ** 2)))
    assert float(TARGETS["fork"](x)) == pytest.approx(-math.log(1 + math.exp(-0.5 * (1.5 / 0.35) ** 2)))
    sides = math.exp(-0.5 * (1 / 0.6) ** 2) + math.exp(-0.5 * 25)
    wanted = 0.5 * ((math.sqrt(2) - 2) / 0.4) ** 2 - math.log(sides)
    assert float(TARGETS["ring"](x)) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.slow
def test_a_gaussian_is_found_without_its_constant() -> None:
    def energy(x: Tensor) -> Tensor:
        return 7 + 0.5 * ((x[..., 0] - 1) / 0.5).square() + 0.5 * (x[..., 1] / 1.5).square()

    grid = grid_points(60)
    log_target = normalized(-energy(grid), 60)
    log_density = fitted(dc.find("planar"), 1, energy, steps=300, seed=0)(grid)
    assert float((log_density.exp() * (log_density - log_target)).sum()) * cell(60) < 0.01


@pytest.mark.slow
def test_a_longer_flow_is_nearer_to_two_modes() -> None:
    finding = flow_targets(dc.find("planar"), dc.find("radial"), lengths=(1, 6), steps=60, points=40)
    for row in finding.numbers["rows"]:
        short, long = row["planar"]["kl"]
        assert 0 < long < short

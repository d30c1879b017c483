"""Overlapping towers come near any Lipschitz function everywhere; plain ones in the mean and away from the grid."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator
from scipy.stats import binned_statistic_2d
from torch import Tensor

from deepcanon.core import Labeled, UsageError
from deepcanon.models.feedforward.tower_network import TowerNetwork

LINE = torch.linspace(0, 1, 121, dtype=torch.float64)
PLANE = torch.cartesian_prod(LINE, LINE)


def lipschitz(bound: float, seed: int) -> Callable[[Tensor], Tensor]:
    """A random function of the plane: the lowest of cones and of plane waves, each of slope ``bound``."""
    random = torch.Generator().manual_seed(seed)
    tops, levels = (torch.rand(12, n, generator=random, dtype=torch.float64) for n in (2, 1))

    def function(x: Tensor) -> Tensor:
        cones = levels.T + bound * torch.cdist(x, tops)  # (B, 12)
        return cones.min(1, keepdim=True).values

    return function


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("epsilon", [0.3, 0.1])
def test_the_error_is_below_epsilon_everywhere_with_the_cells_of_the_theorem(seed: int, epsilon: float) -> None:
    bound = 2.0
    function = lipschitz(bound, seed)
    net = TowerNetwork.approximating(function, 2, lipschitz=bound, epsilon=epsilon)
    assert net.cells == math.ceil(bound / (math.sqrt(2) * epsilon))
    error = (net(PLANE) - function(PLANE)).abs().max()
    assert 0.1 * epsilon < error < epsilon


@pytest.mark.parametrize("features", [1, 2, 3])
def test_the_bound_is_reached_by_the_worst_function(features: int) -> None:
    net = TowerNetwork(features=features, targets=1, cells=4).double()  # type: ignore[arg-type]
    net.build(lambda x: (x - 0.5).norm(dim=1, keepdim=True))
    middle = torch.full((1, features), 0.5, dtype=torch.float64)
    assert float(net(middle)) == pytest.approx(math.sqrt(features) / (2 * 4), rel=1e-12)


@pytest.mark.parametrize("features", [1, 2, 3])
def test_overlapping_towers_are_a_partition_of_unity_also_beyond_the_border(features: int) -> None:
    net = TowerNetwork(features=features, targets=1, cells=4).double()  # type: ignore[arg-type]
    x = 3 * torch.rand(500, features, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 1
    towers = net.units(x)
    assert float(towers.min()) >= 0
    assert torch.allclose(towers.sum(1), torch.ones(500, dtype=torch.float64), rtol=0, atol=1e-12)
    assert torch.allclose(net.units(net.centers()), torch.eye(4**features, dtype=torch.float64), rtol=0, atol=1e-12)


def test_on_the_line_it_interpolates_between_the_centers() -> None:
    net = TowerNetwork(features=1, targets=1, cells=6).double().build(lambda x: (7 * x).sin())
    between = LINE[(LINE >= 1 / 12) & (LINE <= 11 / 12)]
    oracle = RegularGridInterpolator((net.centers()[:, 0].numpy(),), net.heights[:, 0].numpy())(between.numpy())
    np.testing.assert_allclose(net(between.unsqueeze(1))[:, 0].numpy(), oracle, atol=1e-12)


def plain(function: Callable[[Tensor], Tensor], cells: int, steepness: float) -> TowerNetwork:
    net = TowerNetwork(features=2, targets=1, cells=cells, towers="plain", steepness=steepness)
    return net.double().build(function)


@pytest.mark.slow
def test_plain_towers_converge_in_the_mean_and_away_from_the_grid_but_not_everywhere() -> None:
    bound, function = 2.0, lipschitz(2.0, 0)

    def shifted(x: Tensor) -> Tensor:
        return function(x) + 1  # at least 1, so that a tower that is down is wrong by 1

    means = []
    for cells, steepness in ((5, 50.0), (10, 200.0), (20, 800.0)):
        net = plain(shifted, cells, steepness)
        error = (net(PLANE) - shifted(PLANE)).abs()[:, 0]
        off = ((PLANE * cells - (PLANE * cells).round()).abs().min(1).values) > 10 / steepness
        assert float(error[off].max()) < bound / (math.sqrt(2) * cells) + 0.01
        corner = torch.tensor([[2 / cells, 2 / cells]], dtype=torch.float64)
        assert abs(float(net(corner))) < 1e-8, "between four cells every tower is down"
        assert float(net(torch.zeros(1, 2, dtype=torch.float64))) < 0.01, "and at the corners of the border"
        assert float(error.max()) > 0.9
        places = torch.rand(4000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        means.append(float((net(places) - shifted(places)).abs().mean()))
    assert means[0] > 1.8 * means[1] > 1.8**2 * means[2]


def test_the_threshold_of_a_plain_tower_is_that_of_all_bumps_but_half() -> None:
    tower = plain(lambda x: torch.ones(len(x), 1, dtype=x.dtype), 3, 60.0)
    x = torch.tensor([[0.5, 0.5], [0.5, 1.5], [1.5, 1.5]], dtype=torch.float64)
    torch.testing.assert_close(tower(x)[:, 0], torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64), rtol=0, atol=1e-9)


def test_from_data_a_height_is_the_mean_of_its_cell() -> None:
    x = torch.rand(900, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = x.prod(1, keepdim=True)
    net = TowerNetwork(features=2, targets=1, cells=5).double()
    net.prepare([Labeled(x, y)])
    net.absorb(Labeled(x, y))
    oracle = binned_statistic_2d(x[:, 0].numpy(), x[:, 1].numpy(), y[:, 0].numpy(), bins=5).statistic
    np.testing.assert_allclose(net.heights[:, 0].numpy(), oracle.reshape(-1), rtol=1e-12)


def test_too_many_towers_are_refused() -> None:
    with pytest.raises(UsageError, match="64000000 in 3 dimensions"):
        TowerNetwork(features=3, targets=1, cells=400)

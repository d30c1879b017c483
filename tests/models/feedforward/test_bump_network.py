"""Bumps come as near to any Lipschitz function as their theorem says, and learn the means of their cells."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import binned_statistic
from torch import Tensor

from deepcanon.core import Labeled, UsageError
from deepcanon.models.feedforward._cells import enough_cells
from deepcanon.models.feedforward.bump_network import BumpNetwork

GRID = torch.linspace(0, 1, 4001, dtype=torch.float64).unsqueeze(1)


def lipschitz(bound: float, seed: int) -> tuple[Tensor, Tensor]:
    """The corners of a random piecewise linear function whose slopes are at most ``bound``, and often that."""
    random = np.random.default_rng(seed)
    corners = np.concatenate([[0.0], np.sort(random.uniform(size=40)), [1.0]])
    slopes = bound * random.choice([-1.0, 1.0, 0.3, -0.6], size=len(corners) - 1)
    values = np.concatenate([[random.normal()], slopes * np.diff(corners)]).cumsum()
    return torch.from_numpy(corners), torch.from_numpy(values)


def interpolated(x: Tensor, corners: Tensor, values: Tensor) -> Tensor:
    return torch.from_numpy(np.interp(x.numpy(), corners.numpy(), values.numpy()))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("epsilon", [0.2, 0.06])
def test_the_error_is_below_epsilon_everywhere_with_the_cells_of_the_theorem(seed: int, epsilon: float) -> None:
    bound = 3.1
    corners, values = lipschitz(bound, seed)
    net = BumpNetwork.approximating(lambda x: interpolated(x, corners, values), 1, lipschitz=bound, epsilon=epsilon)
    assert net.cells == math.ceil(bound / (2 * epsilon))
    x = torch.cat([GRID, corners.unsqueeze(1)])  # the error is largest at a corner or at a center
    error = (net(x) - interpolated(x, corners, values)).abs().max()
    assert 0.1 * epsilon < error < epsilon


def test_the_bound_is_reached_by_the_worst_function_and_halves_with_the_cells() -> None:
    for cells in (2, 4, 8):
        net = BumpNetwork(features=1, targets=1, cells=cells).double().build(lambda x: (x - 0.5).abs())
        error = (net(GRID) - (GRID - 0.5).abs()).abs().max()
        assert float(error) == pytest.approx(1 / (2 * cells), rel=1e-12)


@pytest.mark.parametrize("steepness", [4.0, 20.0, 200.0])
def test_logistic_bumps_keep_their_own_bound(steepness: float) -> None:
    corners, values = lipschitz(3.0, 1)
    net = BumpNetwork(features=1, targets=1, cells=25, step="logistic", steepness=steepness).double()
    net.build(lambda x: interpolated(x, corners, values))
    error = (net(GRID) - interpolated(GRID, corners, values)).abs().max()
    assert error <= 3.0 / 25 * (0.5 + 2 * math.log(2) / steepness)


@pytest.mark.parametrize("step", ["ramp", "logistic"])
def test_bumps_are_a_partition_of_unity_on_the_whole_line(step: str) -> None:
    net = BumpNetwork(features=1, targets=1, cells=7, step=step).double()  # type: ignore[arg-type]
    bumps = net.units(torch.linspace(-2, 3, 501, dtype=torch.float64).unsqueeze(1))
    assert float(bumps.min()) > -1e-12
    assert torch.allclose(bumps.sum(1), torch.ones(501, dtype=torch.float64), rtol=0, atol=1e-12)
    assert torch.allclose(net.units(net.centers()).diagonal(), torch.ones(7, dtype=torch.float64), rtol=0, atol=1e-4)


def test_from_data_a_height_is_the_mean_of_its_cell_whatever_the_batches() -> None:
    x = torch.rand(300, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 4 - 1
    data = Labeled(x, x.sin())
    nets = [BumpNetwork(features=1, targets=1, cells=9).double() for _ in range(2)]
    for net, size in zip(nets, (300, 40), strict=True):
        net.prepare([data])
        for start in range(0, 300, size):
            net.absorb(data.select(torch.arange(start, min(300, start + size))))
    oracle = binned_statistic(x[:, 0].numpy(), x.sin()[:, 0].numpy(), bins=9).statistic
    np.testing.assert_allclose(nets[0].heights[:, 0].numpy(), oracle, rtol=1e-12)
    assert torch.allclose(nets[0].heights, nets[1].heights, rtol=1e-12)


def test_empty_cells_get_the_mean_and_classes_their_shares() -> None:
    x = torch.tensor([[0.0], [0.1], [1.0]])
    net = BumpNetwork(features=1, targets=1, cells=3)
    net.absorb(Labeled(x, torch.tensor([[1.0], [3.0], [5.0]])))
    assert net.heights[:, 0].tolist() == [2.0, 3.0, 5.0]
    classifier = BumpNetwork(features=1, classes=2, cells=3)
    classifier.absorb(Labeled(x, torch.tensor([0, 0, 1])))
    shares = classifier.predict(classifier.centers(), how="mean")
    torch.testing.assert_close(shares, torch.tensor([[3 / 4, 1 / 4], [1 / 2, 1 / 2], [1 / 3, 2 / 3]]))


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(UsageError, match="must be positive"):
        enough_cells(1.0, 0.0, 1)
    with pytest.raises(UsageError, match="cells must be at least 1"):
        BumpNetwork(features=1, targets=1, cells=0)
    with pytest.raises(UsageError, match="step must be one of ramp, logistic"):
        BumpNetwork(features=1, targets=1, step="cliff")  # type: ignore[arg-type]

"""Linear regions are counted exactly: against closed forms, arrangements of lines, and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.insights._engines.regions import (
    Plane,
    Rectified,
    montufar,
    most_regions,
    regions_on_line,
    regions_on_plane,
    widths,
    zaslavsky,
)


def net(*sizes: int, seed: int = 0) -> nn.Sequential:
    """A rectifier network of these sizes whose joints are spread around the origin."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
        nn.init.normal_(layers[-2].weight)  # type: ignore[arg-type]
        nn.init.normal_(layers[-2].bias)  # type: ignore[arg-type]
    return nn.Sequential(*layers[:-1]).double()


def point(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def plane(model: nn.Module, reach: float) -> Plane:
    return regions_on_plane(model, lambda x: x, (-reach, reach, -reach, reach))


def signs(model: nn.Module, x: Tensor) -> Tensor:
    return torch.cat(Rectified(model).preactivations(x), 1) > 0


@pytest.mark.parametrize("units", [1, 3, 7])
def test_one_layer_on_a_line_has_its_joints_where_the_units_are_zero(units: int) -> None:
    model = net(1, units, 1, seed=units)
    layer = model[0]
    assert isinstance(layer, nn.Linear)
    joints = (-layer.bias / layer.weight[:, 0]).detach().sort().values
    low, high = point(float(joints.min()) - 1), point(float(joints.max()) + 1)
    line = regions_on_line(model, low, high)
    torch.testing.assert_close(low + line.joints * (high - low), joints, rtol=0, atol=1e-9)
    assert line.regions == units + 1 == most_regions([units], 1), "D + 1, since all joints are distinct"
    half = regions_on_line(model, low, joints[:1] - 1e-3)
    assert half.regions == 1, "it is a maximum: beyond the joints there are fewer"


@pytest.mark.parametrize("seed", range(4))
def test_a_deep_network_on_a_line_against_brute_force(seed: int) -> None:
    model = net(1, 5, 5, 2, seed=seed)
    line = regions_on_line(model, point(-4), point(4))
    x = torch.linspace(-4, 4, 40001, dtype=torch.float64).unsqueeze(1)
    changes = (signs(model, x)[1:] != signs(model, x)[:-1]).any(1).nonzero()[:, 0]
    assert line.patterns == len(changes) + 1
    torch.testing.assert_close(8 * line.knots[1:-1] - 4, x[changes, 0], rtol=0, atol=8 / 40000)
    y = model(x)
    bends = (y[2:] - 2 * y[1:-1] + y[:-2]).abs().amax(1) > 1e-9
    assert line.regions == int((bends[1:] & ~bends[:-1]).sum() + bends[0]) + 1
    assert line.regions <= most_regions([5, 5], 1)


def test_units_that_switch_without_a_bend_make_patterns_but_no_regions() -> None:
    model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():
        for name, values in (("0.weight", [[1.0], [-1.0]]), ("0.bias", [0.0, 0.0]), ("2.weight", [[1.0, -1.0]])):
            model.get_parameter(name).copy_(torch.tensor(values))
    line = regions_on_line(model, point(-1), point(2))
    assert (line.patterns, line.regions) == (2, 1), "relu(x) - relu(-x) is x"


@pytest.mark.parametrize("reach", [1.0, 1000.0])
def test_one_layer_on_a_plane_is_an_arrangement_of_lines(reach: float) -> None:
    model = net(2, 9, 1, seed=3)
    layer = model[0]
    assert isinstance(layer, nn.Linear)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    corners = np.array(list(itertools.product([-reach, reach], repeat=2)))
    values = corners @ weight.T + bias
    crossing = int(((values > 0).any(0) & (values < 0).any(0)).sum())
    meetings = [np.linalg.solve(weight[[i, j]], -bias[[i, j]]) for i, j in itertools.combinations(range(9), 2)]
    inside = sum(bool((np.abs(meeting) < reach).all()) for meeting in meetings)
    assert plane(model, reach).regions == 1 + crossing + inside
    if reach > 100:
        assert plane(model, reach).regions == zaslavsky(9, 2) == 46


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_deep_network_on_a_plane_against_brute_force(seed: int) -> None:
    model, reach = net(2, 6, 6, 1, seed=seed), 2.0
    found = plane(model, reach)
    middles = torch.from_numpy(np.stack([polygon.mean(0) for polygon in found.polygons]))
    patterns = {tuple(row) for row in signs(model, middles).tolist()}
    assert len(patterns) == found.regions, "each has a set of active units of its own"
    areas = [_area(polygon) for polygon in found.polygons]
    assert min(areas) > 0
    assert sum(areas) == pytest.approx((2 * reach) ** 2, rel=1e-9), "and together they are the window"
    grid = torch.cartesian_prod(*[torch.linspace(-reach, reach, 301, dtype=torch.float64)] * 2)
    seen = {tuple(row) for row in signs(model, grid).tolist()}
    assert seen <= patterns
    large = [area > 0.01 for area in areas]
    assert len(seen) >= sum(large)
    assert found.regions <= most_regions([6, 6], 2)
    x = middles.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x).sum(), x)
    torch.testing.assert_close(found.gradients[:, 0], gradient)


def _area(corners: np.ndarray) -> float:
    x, y = corners.T
    return 0.5 * abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)))


def test_the_bounds_are_those_of_the_papers() -> None:
    assert zaslavsky(5, 5) == 2**5
    assert [most_regions([4] * depth, 1) for depth in (1, 2, 3)] == [5, 25, 125], "(D + 1)^K"
    assert montufar([2, 2, 2], 1) == 2 * 2 * 3
    assert all(montufar([4] * depth, 2) <= most_regions([4] * depth, 2) for depth in (1, 2, 3))


def test_any_relu_network_will_do_however_it_calls_them() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = net(2, 4, 3, seed=1)
            self.outer = nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.outer(nn.functional.leaky_relu(self.inner(x)) + x.mean(1, keepdim=True).relu())  # type: ignore[no-any-return]

    model = Functional()
    assert widths(model, torch.zeros(1, 2)) == [4, 3, 1]
    found = plane(model, 2.0)
    middles = torch.from_numpy(np.stack([polygon.mean(0) for polygon in found.polygons]))
    assert len({tuple(row) for row in signs(model, middles).tolist()}) == found.regions > 10
    assert next(model.outer.parameters()).dtype == torch.float32, "the model itself is left as it is"

    torch.manual_seed(0)
    images = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(8, 2)).train()
    line = regions_on_line(images, torch.randn(1, 4, 4), torch.randn(1, 4, 4))
    assert images.training
    assert 1 < line.regions <= 9


def test_what_has_no_linear_regions_is_refused() -> None:
    with pytest.raises(UsageError, match="no relu, leaky_relu or prelu"):
        widths(nn.Linear(1, 1), torch.zeros(1, 1))
    smooth = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1), nn.Tanh())
    with pytest.raises(UsageError, match="not linear"):
        regions_on_line(smooth, point(-9), point(9))


def test_a_window_of_whole_numbers_is_one_of_real_numbers() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    whole, real = (regions_on_plane(net, lambda x: x, window) for window in ((-2, 2, -1, 3), (-2.0, 2.0, -1.0, 3.0)))
    assert whole.regions == real.regions > 4
    assert all(np.array_equal(a, b) for a, b in zip(whole.polygons, real.polygons, strict=True))

"""Points in the plane come from scikit-learn's generators, or from a mixture whose moments are known."""

import math

import pytest
import torch
from scipy.stats import chisquare, kstest
from sklearn.datasets import make_circles, make_moons
from torch import Tensor

from deepcanon.data import load_data
from deepcanon.data.sets.plane_points import centers


@pytest.mark.parametrize(("name", "make"), [("moons", make_moons), ("rings", make_circles)])
def test_parts_are_scikit_learns(name: str, make: object) -> None:
    assert callable(make)
    options = {"moons": {"noise": 0.1}, "rings": {"noise": 0.05, "factor": 0.5}}[name]
    data = load_data(name)
    for seed, part in enumerate((data.train, data.valid, data.test)):
        x, y = make(len(part), random_state=seed, **options)
        assert torch.equal(part.x, torch.from_numpy(x).float())
        assert torch.equal(part.y, torch.from_numpy(y))
        assert part.y.bincount().tolist() == [len(part) / 2] * 2


def test_labels_say_which_is_which() -> None:
    moons, rings = load_data("moons"), load_data("rings")
    height = [moons.train.x[moons.train.y == label, 1].mean() for label in range(2)]
    radius = [rings.train.x[rings.train.y == label].norm(dim=1).mean() for label in range(2)]
    assert moons.labels == ("upper", "lower")
    assert height[0] > height[1]
    assert rings.labels == ("outer", "inner")
    assert radius[0] == pytest.approx(1, abs=0.01)
    assert radius[1] == pytest.approx(0.5, abs=0.01)


def all_gaussians() -> tuple[Tensor, Tensor]:
    """All points and the number of the nearest center of each."""
    data = load_data("eight-gaussians")
    x = torch.cat([data.split(name).x for name in ("train", "valid", "test")]).double()
    return x, torch.cdist(x, centers()).argmin(1)


def test_centers_stand_on_a_circle_of_radius_two() -> None:
    angles = torch.atan2(centers()[:, 1], centers()[:, 0]) % (2 * math.pi)
    assert torch.allclose(centers().norm(dim=1), torch.full((8,), 2.0, dtype=torch.float64))
    assert torch.allclose(angles.sort().values, torch.arange(8).double() * math.pi / 4, atol=1e-12)


def test_the_eight_are_equally_probable() -> None:
    _, mode = all_gaussians()
    assert chisquare(mode.bincount(minlength=8)).pvalue > 1e-3


def test_noise_about_each_center_is_a_round_gaussian_of_std_one_tenth() -> None:
    x, mode = all_gaussians()
    # Centers are 15 std apart, so that the nearest center is the one a point was drawn from.
    noise = (x - centers()[mode]) / 0.1
    for number in range(8):
        part = noise[mode == number]
        assert part.mean(0).abs().max() < 4 / math.sqrt(len(part))
        assert (part.std(0) - 1).abs().max() < 4 / math.sqrt(2 * len(part))
    assert abs(noise.std().item() - 1) < 4 / math.sqrt(2 * noise.numel())
    assert kstest(noise.flatten(), "norm").pvalue > 1e-3
    assert abs((noise[:, 0] * noise[:, 1]).mean()) < 4 / math.sqrt(len(noise))


def test_radius_has_the_mean_of_a_rice_distribution() -> None:
    x, _ = all_gaussians()
    expected = 2 + 0.1**2 / (2 * 2)  # of a Rice distribution, up to (std / radius)^4
    assert x.norm(dim=1).mean().item() == pytest.approx(expected, abs=4 * 0.1 / math.sqrt(len(x)))


def test_parts_share_no_point() -> None:
    for name in ("moons", "rings", "eight-gaussians"):
        data = load_data(name)
        points = torch.cat([data.split(part).x for part in ("train", "valid", "test")])
        assert len(points.unique(dim=0)) == len(points)

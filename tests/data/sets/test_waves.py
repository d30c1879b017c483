"""The curve and the noise are those that the source states."""

import numpy as np
import torch
from scipy.stats import kstest

from deepcanon.data import load_data
from deepcanon.data.sets.waves import NOISE, curve


def test_points_are_uniform_and_targets_normal_around_the_curve() -> None:
    data = load_data("waves")
    x, y = (torch.cat([getattr(data.split(name), field) for name in ("train", "valid", "test")]) for field in "xy")
    places = x.double().numpy()[:, 0]
    assert kstest(places, "uniform").pvalue > 1e-4
    assert kstest((y.double().numpy()[:, 0] - curve(places)) / NOISE, "norm").pvalue > 1e-4
    np.testing.assert_allclose(curve(np.array([0.0, 0.25, 0.5])), [0, 0.5, 0], atol=1e-12)

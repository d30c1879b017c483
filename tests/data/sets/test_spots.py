"""Spots lie where and are told as the source states."""

import numpy as np
import torch
from scipy.ndimage import center_of_mass
from scipy.stats import kstest

from deepcanon.data import load_data
from deepcanon.data.sets.spots import SIDE, draw_spots, noise


def test_a_spot_has_its_center_and_its_size() -> None:
    center, size = np.array([[0.25, -0.5]]), np.array([0.15])
    (image,) = draw_spots(center, size)[:, 0].astype(np.float64)
    down, across = (2 * np.array(center_of_mass(image)) + 1) / SIDE - 1
    np.testing.assert_allclose([across, down], center[0], atol=0.01)
    places = (2 * np.arange(SIDE) + 1) / SIDE - 1
    spread = (image.sum(0) * (places - across) ** 2).sum() / image.sum()
    np.testing.assert_allclose(spread, size[0] ** 2, rtol=0.05)


def test_errors_are_normal_and_grow_with_the_spot() -> None:
    """The image tells center and size without error: by its middle and by how much light it holds."""
    data = load_data("spots")
    x, y = data.train.x.double()[:, 0], data.train.y.double().numpy()
    assert len(x.unique()) <= 256
    places = (2 * torch.arange(SIDE, dtype=torch.float64) + 1) / SIDE - 1
    light = x.sum((1, 2))
    found = torch.stack([(x.sum(1) * places).sum(1), (x.sum(2) * places).sum(1)], 1) / light.unsqueeze(1)
    size = (light * (2 / SIDE) ** 2 / (2 * np.pi)).sqrt().numpy()
    whole = (size < 0.2) & (found.abs() < 0.3).all(1).numpy()  # no light falls outside
    errors = (y - found.numpy())[whole] / noise(size[whole])[:, None]
    assert whole.sum() > 50
    assert kstest(errors.flatten(), "norm").pvalue > 1e-3

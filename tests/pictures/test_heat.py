"""Maps over images: where a map is largest the picture is hottest, and an empty one says so."""

import numpy as np
import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.pictures.heat import HEAT, PALE, heat_over


def test_a_map_is_stretched_to_the_image_and_to_its_own_largest_value() -> None:
    images = torch.zeros(2, 1, 8, 8)
    images[:, :, 0, 0] = 1.0
    maps = torch.zeros(2, 2, 2)
    maps[0, 1, 1] = 7.0
    figure = heat_over(images, {"evidence": maps}, ["one", "two"], "title")
    first, second, hot, empty = figure.axes
    assert [axes.get_title() for axes in (first, second)] == ["one", "two"]
    drawn = np.asarray(hot.images[0].get_array())
    np.testing.assert_allclose(drawn[7, 7], (1 - PALE) * np.array(HEAT(1.0)[:3]), atol=1e-6)
    np.testing.assert_allclose(drawn[0, 0], PALE + (1 - PALE) * np.array(HEAT(0.0)[:3]), atol=1e-6)
    assert [text.get_text() for text in empty.texts] == ["empty"]


def test_every_image_needs_its_map() -> None:
    with pytest.raises(UsageError, match="one map for every image"):
        heat_over(torch.zeros(2, 1, 4, 4), {"evidence": torch.zeros(1, 2, 2)})


def test_photos_stay_in_color() -> None:
    images = torch.rand(1, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    images[0, :, 0, 0], images[0, :, 0, 1] = 0.0, 1.0
    maps = torch.zeros(1, 3, 3)
    maps[0, 2, 2] = 1.0
    image, hot = heat_over(images, {"evidence": maps}).axes
    np.testing.assert_allclose(np.asarray(image.images[0].get_array()), images[0].movedim(0, -1), atol=1e-6)
    drawn = np.asarray(hot.images[0].get_array())
    expected = PALE * images[0, :, 1, 1].numpy() + (1 - PALE) * np.array(HEAT(0.0)[:3])
    np.testing.assert_allclose(drawn[1, 1], expected, atol=1e-6)

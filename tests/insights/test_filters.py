"""The classical filters are those of scipy.ndimage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import torch
from numpy.typing import NDArray

from deepcanon.core import Batch, DataError, UsageError
from deepcanon.insights.filters import apply, filtered, filters, gaussian, kernels
from deepcanon.nn.convolution import Border

BORDERS: dict[Border, str] = {"zeros": "constant", "reflect": "mirror", "replicate": "nearest", "circular": "wrap"}
"""Our words for what lies beyond the border, and scipy's."""


@pytest.mark.parametrize("border", sorted(BORDERS))
def test_every_filter_is_that_of_scipy(border: Border) -> None:
    x = torch.randn(2, 3, 11, 13, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mode = BORDERS[border]
    found = filtered(x, sigma=0.8, border=border)

    def each(operation: Any, **settings: Any) -> NDArray[np.float64]:
        return np.array([[operation(plane, mode=mode, **settings) for plane in image] for image in x.numpy()])

    across, down = each(scipy.ndimage.sobel, axis=1), each(scipy.ndimage.sobel, axis=0)
    wanted = {
        "identity": x.numpy(),
        "box": each(scipy.ndimage.uniform_filter, size=3),
        "mean": each(scipy.ndimage.uniform_filter, size=5),
        "gaussian": each(scipy.ndimage.gaussian_filter, sigma=0.8),
        "sharpen": x.numpy() - each(scipy.ndimage.laplace),
        "edges": -each(scipy.ndimage.laplace),
        "sobel_x": across,
        "sobel_y": down,
        "sobel": np.hypot(across, down),
    }
    assert found.keys() == wanted.keys()
    for name, images in found.items():
        np.testing.assert_allclose(images.numpy(), wanted[name], rtol=1e-12, atol=1e-12, err_msg=name)


def test_any_other_kernel_is_correlated_too() -> None:
    x = torch.randn(1, 1, 8, 9, dtype=torch.float64)
    kernel = torch.randn(3, 5, dtype=torch.float64)
    wanted = scipy.ndimage.correlate(x[0, 0].numpy(), kernel.numpy(), mode="mirror")
    np.testing.assert_allclose(apply(x, kernel)[0, 0].numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_the_printed_gaussian_of_five_pixels_is_nearly_the_one_of_width_one() -> None:
    printed = torch.tensor(
        [[1.0, 4, 7, 4, 1], [4, 16, 26, 16, 4], [7, 26, 41, 26, 7], [4, 16, 26, 16, 4], [1, 4, 7, 4, 1]]
    )
    assert printed.sum() == 273
    inner = gaussian(1.0)[2:-2, 2:-2]
    torch.testing.assert_close(inner / inner.sum(), printed.double() / 273, rtol=0, atol=0.012)


def test_sums_say_what_a_kernel_does_to_brightness() -> None:
    found = filters(Batch(torch.full((2, 1, 9, 9), 0.5)))
    assert found.numbers["sums"] == pytest.approx(
        {name: float(name not in ("edges", "sobel_x", "sobel_y")) for name in kernels()}
    )
    for name, mean in found.numbers["means"].items():
        assert mean == pytest.approx(0.5 * found.numbers["sums"].get(name, 0.0), abs=1e-6)


@pytest.mark.slow
def test_blurring_smooths_and_sharpening_roughens() -> None:
    x = torch.rand(4, 3, 12, 10, generator=torch.Generator().manual_seed(0))
    found = filters(Batch(x), shown=2, sigma=0.7)
    rough = found.numbers["roughness"]
    before = found.numbers["roughness_before"]
    differences = np.concatenate([np.diff(x[:2].numpy(), axis=axis).ravel() for axis in (2, 3)])
    assert before == pytest.approx(np.sqrt(np.mean(differences**2)), rel=1e-5)
    assert rough["mean"] < rough["box"] < before < rough["sharpen"]
    assert rough["identity"] == pytest.approx(before)
    assert np.array(found.numbers["images"]["box"]).shape == (2, 3, 12, 10)
    assert len(found.figure.axes) == 3 * 9  # kernels and two images, for nine filters


def test_images_that_are_compared_have_one_scale_which_is_said() -> None:
    x = torch.zeros(2, 1, 9, 9)
    x[0, :, :, 4:], x[1, :, :, 4:] = 1.0, 0.2
    figure = filters(Batch(x)).figure
    shown = {axes.get_title(): column for column, axes in enumerate(figure.axes[:9])}
    clear, faint = (figure.axes[9 * row + shown["identity"]].images[0].get_array() for row in (1, 2))
    assert (clear.max(), faint.max()) == pytest.approx((1.0, 0.2))
    limits = {
        figure.axes[9 * row + shown[name]].images[0].get_clim()
        for row in (1, 2)
        for name in ("edges", "sobel x", "sobel")
    }
    assert limits == {(-4.0, 4.0)}
    assert "black is 0 and white 1" in figure.get_supxlabel()
    assert "from -4 to 4" in " ".join(figure.get_supxlabel().split())


def test_what_is_no_image_or_too_small_is_refused() -> None:
    with pytest.raises(DataError, match="is for images"):
        filters(Batch(torch.zeros(3, 4)))
    with pytest.raises(DataError, match="too small to be mirrored"):
        filters(Batch(torch.zeros(3, 1, 2, 2)))
    with pytest.raises(UsageError, match="sigma must be above zero"):
        filters(Batch(torch.zeros(3, 1, 9, 9)), sigma=0.0)
    with pytest.raises(UsageError, match="shown must be at least 1"):
        filters(Batch(torch.zeros(3, 1, 9, 9)), shown=0)

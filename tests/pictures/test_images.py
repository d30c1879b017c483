import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.text import Text

from deepcanon.core import UsageError
from deepcanon.pictures import image_grid, image_grids, rows


def sheet(axes: Axes) -> np.ndarray:
    return np.asarray(axes.images[0].get_array())


def test_every_image_lies_in_its_cell_of_the_grid() -> None:
    x = torch.rand(5, 4 * 6, generator=torch.Generator().manual_seed(0))
    picture = sheet(image_grid(x, (1, 4, 6), columns=3).axes[0])
    assert picture.shape == (2 * 5 + 1, 3 * 7 + 1, 3)
    for i in range(5):
        top, left = 1 + 5 * (i // 3), 1 + 7 * (i % 3)
        tile = picture[top : top + 4, left : left + 6]
        assert np.allclose(tile, x[i].reshape(4, 6, 1).expand(4, 6, 3).numpy())


def test_colors_keep_their_channels_and_other_channels_become_gray() -> None:
    x = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    assert np.allclose(sheet(image_grid(x, (3, 4, 4)).axes[0])[1:5, 1:5], x[0].permute(1, 2, 0).numpy())
    two = torch.stack([torch.zeros(4, 4), torch.ones(4, 4)]).unsqueeze(0)
    assert np.allclose(sheet(image_grid(two, (2, 4, 4)).axes[0])[1:5, 1:5], 0.5)


def test_limits_are_black_and_white_and_what_lies_outside_is_cut() -> None:
    x = torch.tensor([[-3.0, -1.0], [0.0, 2.0]]).reshape(1, 4)
    picture = sheet(image_grid(x, (2, 2), limits=(-1.0, 1.0)).axes[0])
    assert np.allclose(picture[1:3, 1:3, 0], [[0.0, 0.0], [0.5, 1.0]])


def test_grids_stand_side_by_side_under_their_names() -> None:
    figure = image_grids({"data": torch.zeros(4, 4), "samples": torch.ones(4, 4)}, (2, 2), columns=2)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["data", "samples"]


def test_a_name_too_long_for_its_grid_goes_on_in_a_further_line() -> None:
    name = "convolutional_autoencoder on digits: first filters, white is positive"
    figure = image_grid(torch.rand(8, 4), (2, 2), title=name)
    (axes,) = figure.axes
    shown = axes.get_title(loc="left")
    assert shown.split() == name.split()
    figure.canvas.draw()
    text = next(child for child in axes.findobj(Text) if isinstance(child, Text) and child.get_text() == shown)
    assert text.get_window_extent().x1 <= figure.bbox.x1


def test_rows_go_on_in_a_further_block() -> None:
    gallery = {"data": torch.zeros(5, 4), "again": torch.ones(5, 4)}
    figure = rows(gallery, (2, 2), columns=3, captions=list("abcde"))
    assert [axes.get_ylabel() for axes in figure.axes] == ["data", "again", "data", "again"]
    assert [[text.get_text() for text in axes.texts] for axes in figure.axes] == [["a", "b", "c"], [], ["d", "e"], []]
    assert sheet(figure.axes[0]).shape == sheet(figure.axes[2]).shape  # the last block is as wide as the first


def test_points_are_no_images() -> None:
    with pytest.raises(UsageError, match=r"\(height, width\) or \(channels, height, width\), got \(4,\)"):
        image_grid(torch.zeros(2, 4), (4,))

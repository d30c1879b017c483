"""Filters and their responses: what is drawn is what was computed."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from deepcanon.pictures.filters import filter_grid, responses


def sheets(figure: Figure) -> list[np.ndarray]:
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes]


def test_all_filters_have_one_scale_and_zero_is_gray() -> None:
    filters = torch.zeros(2, 1, 3, 3)
    filters[0, 0, 1, 1], filters[1, 0, 1, 1] = 25.0, -50.0
    (sheet,) = sheets(filter_grid(filters))
    large, gap = 24, 2
    first, second = (sheet[gap : gap + large, gap + i * (large + gap) :][:, :large] for i in range(2))
    middle = slice(8, 16)
    assert first[middle, middle] == pytest.approx(0.75)
    assert second[middle, middle] == pytest.approx(0.0)
    assert first[:8] == pytest.approx(0.5)
    assert second[16:] == pytest.approx(0.5)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_filter_responds_where_it_finds_itself(channels: int) -> None:
    pattern = torch.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0], [1.0, -1.0, 1.0]])
    filters = torch.stack([pattern, -pattern]).unsqueeze(1).expand(-1, channels, -1, -1)
    x = torch.zeros(2, channels, 9, 9)
    x[0, :, 2:5, 3:6] = pattern
    data, answer, *_ = sheets(responses(x, filters))
    assert len(sheets(responses(x, filters))) == 3
    second = 9 + 2  # behind the filter itself and the gaps around it
    one = answer[1:10, second : second + 9, 0]
    assert int(one.argmax()) == 3 * 9 + 4
    assert one.max() == pytest.approx(1.0)
    assert data[1 + 3, second + 4, 0] == pytest.approx(1.0)
    own = answer[1:10, 1:10, 0]
    assert own[1::3, 1::3] == pytest.approx((pattern.numpy() + 1) / 2)


def test_an_image_that_is_all_alike_has_no_edge_at_its_border() -> None:
    x = torch.full((2, 1, 6, 6), 3.0)
    x[1] = 5.0
    _, answer = sheets(responses(x, torch.tensor([[[[-1.0, 0.0, 1.0]] * 3]])))
    assert answer[1:7, 8:14] == pytest.approx(0.0)
    assert answer[1:7, 15:21] == pytest.approx(0.0)

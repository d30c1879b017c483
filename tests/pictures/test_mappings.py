"""A picture of a mapping shows each domain, its image in the other one, and the way back."""

import numpy as np
import torch

from deepcanon.core.roles import Domain
from deepcanon.pictures.mappings import mapping


def shifted(x: torch.Tensor, to: Domain) -> torch.Tensor:
    return x + (5.0 if to == "y" else -5.0)


def test_points_are_drawn_where_they_are_mapped_to_over_the_other_domain() -> None:
    x, y = torch.rand(2, 30, 2, generator=torch.Generator().manual_seed(0))
    y = y[:20] + 5
    figure = mapping(x, y, shifted, "a title")
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes] == [
        "domain x", "x mapped to y", "x mapped to y and back", "domain y", "y mapped to x", "y mapped to x and back",
    ]  # fmt: skip
    drawn = [[torch.tensor(points.get_offsets()).float() for points in axes.collections] for axes in figure.axes]
    assert torch.equal(drawn[0][0], x)
    for panel, (beneath, points) in ((1, (y, x + 5)), (2, (x, x)), (4, (x, y - 5)), (5, (y, y))):
        torch.testing.assert_close(drawn[panel][0], beneath)
        torch.testing.assert_close(drawn[panel][1], points)
    colors = [np.asarray(figure.axes[panel].collections[-1].get_array()).tolist() for panel in range(3)]
    assert colors[0] == colors[1] == colors[2]  # a point keeps its color
    assert len(set(colors[0])) == len(x)


def test_images_are_drawn_in_rows() -> None:
    x, y = torch.rand(2, 4, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    figure = mapping(x, y, shifted, "a title", (1, 3, 3))
    assert len([axes for axes in figure.axes if axes.images]) in (6, 24)  # one picture per row, or per image

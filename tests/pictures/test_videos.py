"""Films have a frame in each place, and nothing where a video has ended or not begun."""

import math

import numpy as np
import torch
from matplotlib.colors import to_rgb

from deepcanon.core import Videos
from deepcanon.pictures.style import LINE
from deepcanon.pictures.videos import continuations, film

VIDEOS = Videos(torch.rand(2, 4, 1, 3, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([4, 3]))


def test_a_film_holds_the_frames_of_each_video_and_nan_after_its_end() -> None:
    broken = Videos(VIDEOS.x.clone(), VIDEOS.lengths)
    broken.x[1, 3] = math.inf
    frames = film(broken, 5).view(2, 5, 3, 3)
    assert torch.equal(frames[0, :4], VIDEOS.x[0, :, 0])
    assert torch.equal(frames[1, :3], VIDEOS.x[1, :3, 0])
    assert frames[0, 4:].isnan().all()
    assert frames[1, 3:].isnan().all()


def test_continuations_begin_where_the_first_half_ends() -> None:
    paths = torch.rand(2, 2, 2, 1, 3, 3, generator=torch.Generator().manual_seed(1))
    figure = continuations(paths, VIDEOS)
    assert [axes.get_ylabel() for axes in figure.axes] == [
        "video 1", "path 1.1", "path 1.2", "video 2", "path 2.1", "path 2.2",
    ]  # fmt: skip
    assert [text.get_text() for text in figure.axes[0].texts] == ["frame 1", "frame 2", "frame 3", "frame 4"]
    for row, given in ((2, 2), (5, 1)):
        sheet = np.asarray(figure.axes[row].images[0].get_array())
        tiles = [sheet[1:4, 1 + 4 * frame : 4 + 4 * frame] for frame in range(4)]
        drawn = [bool(np.ptp(tile) > 0.1) and not np.allclose(tile, to_rgb(LINE)) for tile in tiles]
        assert drawn == [given <= frame < given + 2 for frame in range(4)]
        assert np.allclose(tiles[given][..., 0], paths[1, row // 3, 0, 0].numpy())

"""Samples are drawn as what the data are: images, the frames of a video in a row, points of a plane."""

from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon.pictures
from deepcanon.core import UsageError
from deepcanon.runs.sampling import check_drawable, draw_samples

VIDEOS = {"kind": "videos", "shape": [3, 1, 2, 4], "preprocessing": {"levels": 17, "form": "dequantized"}}


def test_the_frames_of_a_video_stand_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(deepcanon.pictures, "save", lambda figure, path: drawn.append(figure))
    x = torch.rand(5, 3, 1, 2, 4, generator=torch.Generator().manual_seed(0))
    draw_samples(x.flatten(1), Path("s.png"), "samples", VIDEOS)
    sheet = torch.from_numpy(drawn[0].axes[0].images[0].get_array().data)
    assert sheet.shape == (5 * 3 + 1, 3 * 5 + 1, 3)
    for video in range(5):
        for frame in range(3):
            top, left = 1 + 3 * video, 1 + 5 * frame
            assert torch.allclose(sheet[top : top + 2, left : left + 4, 0], x[video, frame, 0])


def test_a_picture_has_room_for_so_many_frames() -> None:
    check_drawable(4096 // 3, VIDEOS)
    with pytest.raises(UsageError, match=r"at most 1,365 samples \(got -n 1,366\); write more to a .csv file"):
        check_drawable(1366, VIDEOS)
    check_drawable(4096, {"kind": "images", "shape": [3, 2, 4]})

"""Digits move by whole pixels, turn back at the edges, and are those of the digits' own splits."""

import pytest
import torch
from torch import Tensor

from deepcanon.core import Videos
from deepcanon.data import load_data
from deepcanon.data.sets.moving_digits import FEWEST, FRAMES, SIDE, VELOCITIES, moving


def places(x: Tensor) -> list[tuple[int, int]]:
    """Where the one bright pixel of each frame is."""
    return [divmod(int(frame.flatten().argmax()), SIDE) for frame in x]


def test_a_digit_moves_by_a_pixel_a_frame_and_turns_back_at_the_edges() -> None:
    corner = torch.zeros(60, 1, 8, 8)
    corner[:, 0, 0, 0] = 1  # which shows where the upper left corner of the image is
    videos = moving(corner, seed=0)
    seen = set()
    for x, length in zip(videos.x, videos.lengths.tolist(), strict=True):
        path = torch.tensor(places(x[:length]))
        assert int(path.min()) >= 0
        assert int(path.max()) <= SIDE - 8
        steps = path.diff(dim=0)
        seen.add(tuple(steps[0].tolist()))
        for axis in (0, 1):
            assert len(steps[:, axis].abs().unique()) == 1  # it stands still along an axis, or never does
            turned = (steps[1:, axis] != steps[:-1, axis]).nonzero().squeeze(1) + 1
            assert all(int(path[frame, axis]) in (0, SIDE - 8) for frame in turned)
    assert seen == set(VELOCITIES)


def test_every_frame_holds_the_whole_digit_of_its_own_split() -> None:
    data, digits = load_data("moving-digits"), load_data("digits")
    for name in ("train", "valid", "test"):
        split: Videos = data.split(name)
        assert sorted(split.lengths.unique().tolist()) == list(range(FEWEST, FRAMES + 1))
        inside = torch.arange(FRAMES) < split.lengths.unsqueeze(1)
        wanted = digits.split(name).x[: len(split)].flatten(1).sum(1, keepdim=True).expand(-1, FRAMES)
        brightness = split.x.flatten(2).sum(2)
        torch.testing.assert_close(brightness, wanted * inside)


def test_the_dequantized_form_gives_the_frames_back_and_is_drawn_anew() -> None:
    plain, data = load_data("moving-digits"), load_data("moving-digits:dequantized")
    assert torch.equal((data.train.x * 17).floor() / 16, plain.train.x)
    assert data.sizes["levels"] == 17
    assert data.fresh is not None
    some = data.train.select(torch.arange(5))
    anew = data.fresh(some, torch.Generator().manual_seed(1))
    assert isinstance(anew, Videos)
    assert torch.equal(anew.lengths, some.lengths)
    assert not torch.equal(anew.x, some.x)
    assert torch.equal((anew.x * 17).floor(), (some.x * 17).floor())


@pytest.mark.parametrize("form", ["labels=20", "words"])
def test_forms_of_other_data_are_refused(form: str) -> None:
    with pytest.raises(Exception, match=r"moving-digits"):
        load_data(f"moving-digits:{form}")

"""The domains of inverted digits have no digit in common in training, and are pairs where they are held out."""

import torch

from deepcanon.core import ImagePairs, TwoDomains
from deepcanon.data import load_data


def test_training_digits_are_unpaired_and_held_out_ones_are_pairs() -> None:
    data, digits = load_data("inverted-digits"), load_data("digits")
    assert type(data.train) is TwoDomains
    assert (tuple(data.train.x.shape), tuple(data.train.y.shape)) == ((629, 1, 8, 8), (628, 1, 8, 8))
    assert torch.equal(torch.cat([data.train.x, 1 - data.train.y]), digits.train.x)
    for part in ("valid", "test"):
        split = data.split(part)
        assert isinstance(split, ImagePairs)
        assert torch.equal(split.x, digits.split(part).x)
        torch.testing.assert_close(split.x + split.y, torch.ones_like(split.x))

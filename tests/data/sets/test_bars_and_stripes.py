"""The patterns are all that the definition allows, each as often as any other."""

from itertools import product

import torch

from deepcanon.data import load_data


def test_the_parts_hold_every_pattern_of_bars_or_stripes_equally_often() -> None:
    allowed = set()
    for pixels in product((0, 1), repeat=9):
        rows = [pixels[start : start + 3] for start in (0, 3, 6)]
        columns = list(zip(*rows, strict=True))
        if all(len(set(line)) == 1 for line in rows) or all(len(set(line)) == 1 for line in columns):
            allowed.add(pixels)
    assert len(allowed) == 14
    data = load_data("bars-and-stripes")
    for part in (data.train, data.split("valid"), data.split("test")):
        found, counts = part.x.flatten(1).unique(dim=0, return_counts=True)
        assert {tuple(int(pixel) for pixel in row) for row in found} == allowed
        assert len(counts.unique()) == 1
    binary = load_data("bars-and-stripes:binary")
    assert torch.equal(binary.train.x, data.train.x)

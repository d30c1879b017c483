"""Drawings of a notebook: what is drawn lies where it should, and a spike is never lost."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
import torch
from PIL import Image

import deepcanon as dc
from deepcanon.core.sketch import batch_sketch, class_bars, graph_sketch, spring_layout
from deepcanon.core.svg import COLORS, HEIGHT, TOP, bars, curves, picture_strip, png, scatter


def test_one_spike_in_a_hundred_thousand_points_is_drawn() -> None:
    points = [(float(step), 1.0 + (step % 7) / 10) for step in range(100_000)]
    points[54_321] = (54_321.0, 100.0)
    html = curves({"loss": points}, "step", "loss")
    band = re.search(r'<polygon points="([^"]+)"', html)
    assert band is not None
    heights = [float(pair.split(",")[1]) for pair in band[1].split()]
    assert min(heights) == TOP, "the spike reaches the upper end"
    assert sum(height == TOP for height in heights) == 1
    assert len(html) < 12_000


def luminance(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", COLORS)
def test_colors_stand_out_from_light_and_dark_pages(color: str) -> None:
    """By the contrast of WCAG 2.2, of which graphics need 3."""
    own = luminance(color)
    assert 1.05 / (own + 0.05) >= 3
    assert (own + 0.05) / (luminance("#111111") + 0.05) >= 3


def test_an_image_is_read_back_by_another_library() -> None:
    for channels in (1, 3):
        image = torch.randint(0, 256, (channels, 5, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        read = np.asarray(Image.open(io.BytesIO(png(image))))
        assert np.array_equal(read, image.permute(1, 2, 0).squeeze(-1).numpy())
    assert picture_strip(torch.rand(3, 1, 4, 4)).count("<img") == 3


def test_neighbors_are_laid_out_nearer_than_others() -> None:
    ring = [(node, (node + 1) % 12) for node in range(12)]
    places = spring_layout(12, ring)
    distance = torch.cdist(places, places)
    near = torch.tensor([float(distance[a, b]) for a, b in ring])
    assert float(near.max()) < float(distance[torch.triu(torch.ones(12, 12), 1).bool()].median())
    assert torch.isfinite(spring_layout(1, [])).all()


def test_batches_are_sketched_by_what_they_hold() -> None:
    y = torch.tensor([0, 1, 1])
    assert batch_sketch(dc.Labeled(torch.rand(3, 1, 8, 8), y), ["a", "b"]).count("<img") == 3
    assert batch_sketch(dc.Labeled(torch.rand(3, 2), y), ["a", "b"]).count("<circle") == 3
    assert batch_sketch(dc.Batch(torch.rand(3, 20))).count("<td>") == 3 * 8
    assert batch_sketch(dc.Batch(torch.zeros(0, 2))) == ""
    assert batch_sketch(dc.Batch(torch.zeros(3, 2, device="meta"))) == ""
    assert batch_sketch(dc.Batch(torch.zeros(3, 2, 4, 5, 6))) == ""
    karate = dc.load_data("karate").train
    assert batch_sketch(karate).count("<circle") == 34
    assert batch_sketch(karate).count("<line") == 78
    ring = torch.arange(500)
    assert "<rect" in graph_sketch(dc.Graph(torch.stack([ring, (ring + 1) % 500]), nodes=500))
    assert "500" in graph_sketch(dc.Graph(torch.stack([ring, (ring + 1) % 500]), nodes=500))


def test_counts_of_classes_are_those_of_the_labels() -> None:
    html = class_bars(torch.tensor([1, 1, 0, 1, -1]), ["<i>", "two"])
    assert re.findall(r">([^<>]+)</text>", html) == ["&lt;i&gt;", "1", "two", "3"]
    assert class_bars(torch.rand(5), []) == ""
    assert class_bars(None, []) == ""


def test_a_drawing_of_one_point_and_of_none() -> None:
    assert f"0 0 560 {HEIGHT}" in curves({"loss": [(1.0, 2.0)]}, "step", "loss")
    assert curves({"loss": []}, "step", "loss") == ""
    assert "<circle" in scatter({"points": [(1.0, 1.0)]})
    assert "<rect" in bars({"a": 0})

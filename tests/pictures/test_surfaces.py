"""Contours have levels of equal area, and leave out what is not finite."""

import math

import numpy as np
from matplotlib.contour import QuadContourSet

from deepcanon.pictures.style import new_figure
from deepcanon.pictures.surfaces import contours, levels_of


def test_each_level_covers_as_much() -> None:
    axes = new_figure(3, 3).add_subplot()
    x = np.linspace(-1, 1, 60)
    heights = 10 ** (4 * (x[None] ** 2 + x[:, None] ** 2))  # over eight powers of ten
    contours(axes, x.tolist(), x.tolist(), heights.tolist(), levels=levels_of(heights.tolist(), count=6))
    filled = next(each for each in axes.collections if isinstance(each, QuadContourSet) and each.filled)
    counts, _ = np.histogram(heights, bins=np.asarray(filled.levels))
    assert len(counts) == 6
    assert counts.max() <= 1.3 * counts.min()


def test_a_level_plane_and_holes_are_drawn_too() -> None:
    axes = new_figure(3, 3).add_subplot()
    contours(axes, [0, 1], [0, 1], [[2.0, 2.0], [2.0, 2.0]])
    assert [text.get_text() for text in axes.texts] == ["level everywhere"]
    axes = new_figure(3, 3).add_subplot()
    contours(axes, [0, 1, 2], [0, 1], [[0.0, 1.0, math.nan], [2.0, 3.0, math.inf]])
    assert len(axes.collections) == 2

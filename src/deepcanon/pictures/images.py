"""Images in grids, in grids side by side, and in named rows."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.pictures.style import INK, LINE, dress, new_figure

Limits = tuple[float, float]
UNIT: Limits = (0.0, 1.0)

LETTERS = 11
"""How many letters of a title stand on an inch."""


def image_grid(x: Tensor, shape: Sequence[int], columns: int = 8, *, limits: Limits = UNIT, title: str = "") -> Figure:
    """Images, one per row of ``x``, in a grid; ``limits`` are the values shown as black and white."""
    return image_grids({title: x}, shape, columns, limits=limits)


def image_grids(
    groups: Mapping[str, Tensor], shape: Sequence[int], columns: int = 8, *, limits: Limits = UNIT, title: str = ""
) -> Figure:
    """Named grids side by side, to be compared."""
    lines = max(math.ceil(len(x) / columns) for x in groups.values())
    width = 0.52 * columns + 0.3
    names = [textwrap.fill(name, int(LETTERS * width)) for name in groups]
    above = 0.45 + 0.17 * max(name.count("\n") for name in names) + 0.25 * bool(title)
    figure = new_figure(len(groups) * width, 0.52 * lines + above, title)
    for column, (name, x) in enumerate(zip(names, groups.values(), strict=True), start=1):
        axes = figure.add_subplot(1, len(groups), column)
        draw_images(axes, x, shape, columns, limits=limits)
        axes.set_title(name, loc="left", fontsize=10, fontweight="bold", color=INK, pad=6)
    return figure


def draw_images(axes: Axes, x: Tensor, shape: Sequence[int], columns: int = 8, *, limits: Limits = UNIT) -> None:
    """Images, one per row of ``x``, as a grid in these axes."""
    _show(axes, _canvas(x, shape, columns, limits))


def rows(
    gallery: Mapping[str, Tensor],
    shape: Sequence[int],
    columns: int = 10,
    *,
    captions: Sequence[str] = (),
    limits: Limits = UNIT,
    title: str = "",
) -> Figure:
    """Named rows of images one above another; rows longer than ``columns`` go on in a further block below.

    ``captions`` stand above the images of the first row.
    """
    longest = max(len(x) for x in gallery.values())
    columns = min(columns, longest)
    starts = range(0, longest, columns)
    lines = len(starts) * len(gallery)
    side = 0.8
    figure = new_figure(side * columns + 1.3, side * lines + 0.4 * len(starts) * bool(captions) + 0.3, title)
    shown = [(start, name) for start in starts for name in gallery]
    for line, (start, name) in enumerate(shown):
        axes = figure.add_subplot(lines, 1, line + 1)
        canvas = _canvas(gallery[name][start : start + columns], shape, columns, limits)
        _show(axes, canvas)
        axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9, color=INK, labelpad=8)
        if line % len(gallery) == 0:
            _caption(axes, captions[start : start + columns], canvas.shape[1], columns)
    return figure


def _caption(axes: Axes, captions: Sequence[str], width: int, columns: int) -> None:
    for column, caption in enumerate(captions):
        x = (column + 0.5) * width / columns - 0.5
        axes.annotate(
            caption, (x, -0.5), xytext=(0, 3), textcoords="offset points", ha="center", va="bottom", fontsize=7,
            color=INK,
        )  # fmt: skip


def _show(axes: Axes, canvas: NDArray[np.float32]) -> None:
    dress(axes, grid=False)
    axes.imshow(canvas, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def _canvas(x: Tensor, shape: Sequence[int], columns: int, limits: Limits) -> NDArray[np.float32]:
    """All images on one pale sheet, (height, width, 3), so that white images have borders too.

    An image of nothing but NaN is not there, and its place is left free.
    """
    images = _colored(x, shape, limits)
    there = ~x.detach().flatten(1).isnan().all(1).cpu().numpy()
    count, height, width, _ = images.shape
    gap = max(1, round(0.08 * height))
    lines = math.ceil(count / columns)
    sheet = np.empty((lines * (height + gap) + gap, columns * (width + gap) + gap, 3), dtype=np.float32)
    sheet[:] = to_rgb(LINE)
    for number in np.flatnonzero(there):
        top, left = (number // columns) * (height + gap) + gap, (number % columns) * (width + gap) + gap
        sheet[top : top + height, left : left + width] = images[number]
    return sheet


def _colored(x: Tensor, shape: Sequence[int], limits: Limits) -> NDArray[np.float32]:
    """Values in [0, 1] with three channels last, (B, height, width, 3); other channels than three become gray."""
    if len(shape) not in (2, 3):
        raise UsageError(f"an image has the shape (height, width) or (channels, height, width), got {tuple(shape)}")
    low, high = limits
    images = x.detach().cpu().float().reshape(len(x), -1, *shape[-2:])
    if images.shape[1] != 3:
        images = images.mean(1, keepdim=True).expand(-1, 3, -1, -1)
    scaled = ((images - low) / max(high - low, torch.finfo(torch.float32).tiny)).clamp(0, 1)
    array: NDArray[np.float32] = scaled.nan_to_num().permute(0, 2, 3, 1).numpy()
    return array

"""Images with captions under them, those that a model writes and, where they differ, the true ones."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core.plural import counted
from deepcanon.pictures.images import UNIT, Limits, draw_images
from deepcanon.pictures.style import INK, MUTED, PALETTE, new_figure

SIDE = 1.7
"""The room of an image and of a line of its caption, in inches."""
LETTERS = 22
"""How many letters of a caption stand in a line."""
MOST_LINES = 6


def captioned_images(
    x: Tensor,
    shape: Sequence[int],
    written: Sequence[str],
    true: Sequence[str] | None = None,
    *,
    columns: int = 6,
    limits: Limits = UNIT,
    title: str = "",
) -> Figure:
    """Images (B, ...) in a grid, each above what was ``written`` for it, and if that is wrong, the ``true`` caption.

    Without true captions the images were made from what is written.
    """
    columns = min(columns, len(x))
    lines = -(-len(x) // columns)
    figure = new_figure(SIDE * columns + 0.2, (SIDE + 0.75) * lines + 0.5, title)
    grid = figure.subplots(lines, columns, squeeze=False).flatten()
    for axes in grid[len(x) :]:
        axes.axis("off")
    for axes, image, ours, wanted in zip(grid, x, written, written if true is None else true, strict=False):
        draw_images(axes, image.unsqueeze(0), shape, 1, limits=limits)
        same = ours == wanted
        words = _folded(ours) if same else f"{_folded(ours or '(nothing)')}\n\u2260 {_folded(wanted)}"
        axes.set_xlabel(words, fontsize=8, color=INK if same else PALETTE[1], labelpad=4, parse_math=False)
    if true is not None:
        right = sum(ours == wanted for ours, wanted in zip(written, true, strict=True))
        figure.supxlabel(f"exact: {right} of {counted(len(x), 'caption')}", fontsize=8, color=MUTED)
    return figure


def _folded(text: str) -> str:
    return textwrap.fill(text, LETTERS, max_lines=MOST_LINES, placeholder=" ...")

"""Confusion matrices."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.pictures.class_names import class_names
from deepcanon.pictures.style import INK, LINE, SHADES, dress, new_figure

READABLE = 24


def confusion(matrix: Tensor, labels: Sequence[str] = (), title: str = "") -> Figure:
    """A confusion matrix: examples by true class (row) and predicted class (column); shades are shares of the row."""
    counts = matrix.detach().cpu().double()
    classes = len(counts)
    names = class_names(labels, classes)
    shares = counts / counts.sum(1, keepdim=True).clamp_min(1)
    side = min(9.0, 2.6 + 0.42 * min(classes, READABLE))
    figure = new_figure(side + 0.9, side)
    axes = figure.add_subplot()
    image = axes.imshow(shares.numpy(), cmap=SHADES, norm=PowerNorm(0.5, 0, 1))  # a root, so that rare errors are seen
    dress(axes, title, "predicted class", "true class", grid=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    every = 1 if classes <= READABLE else classes // 10
    ticks = list(range(0, classes, every))
    axes.set_xticks(ticks, [names[i] for i in ticks], rotation=90 if max(map(len, names)) > 3 else 0)
    axes.set_yticks(ticks, [names[i] for i in ticks])
    axes.tick_params(length=0)
    axes.hlines([i - 0.5 for i in range(classes + 1)], -0.5, classes - 0.5, color=LINE, linewidth=0.5)
    axes.vlines([i - 0.5 for i in range(classes + 1)], -0.5, classes - 0.5, color=LINE, linewidth=0.5)
    if classes <= READABLE:
        for row, column in counts.nonzero().tolist():
            axes.text(
                column, row, f"{int(counts[row, column])}", ha="center", va="center", fontsize=7,
                color="white" if shares[row, column] > 0.3 else INK,
            )  # fmt: skip
    bar = figure.colorbar(
        image, ax=axes, shrink=0.7, pad=0.03, ticks=[0, 0.05, 0.25, 0.5, 1], format=lambda share, _: f"{share:.0%}"
    )
    bar.set_label("share of the true class", fontsize=8, color=INK)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=0)
    return figure

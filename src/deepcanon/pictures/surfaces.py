"""Contour plots: losses over a plane of weights, and functions of two numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.patheffects import withStroke

from deepcanon.pictures.style import INK, MUTED, SHADES


def contours(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    heights: Sequence[Sequence[float]],
    levels: int = 12,
    labels: bool = True,
) -> None:
    """Draw ``heights`` by rows of equal y, each level about as large as the others, so that no valley is lost.

    Where a height is not finite nothing is drawn.
    """
    z = np.ma.masked_invalid(np.asarray(heights, dtype=float))
    known = z.compressed()
    if not len(known) or known.min() == known.max():
        axes.text(0.5, 0.5, "level everywhere", transform=axes.transAxes, ha="center", color=MUTED)
        return
    edges = np.unique(np.quantile(known, np.linspace(0, 1, levels + 1)))
    edges = edges[np.concatenate([[True], np.diff(edges) > 1e-9 * (edges[-1] - edges[0])])]
    edges[-1] = known.max()
    if len(edges) < 3:
        edges = np.linspace(known.min(), known.max(), 4)
    norm = BoundaryNorm(edges.tolist(), SHADES.N)
    axes.contourf(x, y, z, levels=edges, cmap=SHADES.reversed(), norm=norm, alpha=0.65)
    lines = axes.contour(x, y, z, levels=edges[1:-1], colors=INK, linewidths=0.4, alpha=0.5)
    if labels:
        texts = axes.clabel(lines, levels=edges[1:-1:2].tolist(), fontsize=7, fmt="%.3g", inline=False)
        for text in texts:
            text.set(color=INK, alpha=1, path_effects=[withStroke(linewidth=2, foreground="white", alpha=0.7)])

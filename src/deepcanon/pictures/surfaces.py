"""Contour plots: losses over a plane of weights, and functions of two numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.patheffects import withStroke

from deepcanon.pictures.style import INK, MUTED, SHADES


def levels_of(*heights: Sequence[Sequence[float]], count: int = 12) -> list[float]:
    """Levels for contours, each about as large as the others, so that no valley is lost; of several surfaces, common.

    >>> levels_of([[0.0, 1.0, 2.0, 3.0, 4.0]], count=2)
    [0.0, 2.0, 4.0]
    """
    known = np.concatenate([np.asarray(each, dtype=float).ravel() for each in heights])
    known = known[np.isfinite(known)]
    if not len(known) or known.min() == known.max():
        return []
    edges = np.unique(np.quantile(known, np.linspace(0, 1, count + 1)))
    edges = edges[np.concatenate([[True], np.diff(edges) > 1e-9 * (edges[-1] - edges[0])])]
    edges[-1] = known.max()
    if len(edges) < 3:
        edges = np.linspace(known.min(), known.max(), 4)
    found: list[float] = edges.tolist()
    return found


def contours(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    heights: Sequence[Sequence[float]],
    levels: Sequence[float] | None = None,
    labels: bool = True,
) -> None:
    """Draw ``heights`` by rows of equal y, at these levels or at some of their own (:func:`levels_of`).

    Where a height is not finite nothing is drawn. Panels that are compared have the same levels.
    """
    z = np.ma.masked_invalid(np.asarray(heights, dtype=float))
    edges = levels_of(heights) if levels is None else list(levels)
    if not edges:
        axes.text(0.5, 0.5, "level everywhere", transform=axes.transAxes, ha="center", color=MUTED)
        return
    norm = BoundaryNorm(edges, SHADES.N)
    axes.contourf(x, y, z, levels=edges, cmap=SHADES.reversed(), norm=norm, alpha=0.65, extend="both")
    inner = edges[1:-1] if levels is None else edges
    inner = [edge for edge in inner if z.min() < edge < z.max()]
    if not inner:
        return
    lines = axes.contour(x, y, z, levels=inner, colors=INK, linewidths=0.4, alpha=0.5)
    if labels:
        texts = axes.clabel(lines, levels=inner[::2], fontsize=7, fmt="%.3g", inline=False)
        for text in texts:
            text.set(color=INK, alpha=1, path_effects=[withStroke(linewidth=2, foreground="white", alpha=0.7)])

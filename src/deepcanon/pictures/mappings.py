"""Pictures of a mapping between two domains: there, and back again."""

from __future__ import annotations

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core.roles import Domain
from deepcanon.pictures.points import frame, window
from deepcanon.pictures.style import MUTED, dress, new_figure

COLORS = "twilight"
"""A cyclic scale of colors: a point has that of its direction, so that its image is found again."""


def mapping_plot(x: Tensor, y: Tensor, to: Callable[[Tensor, Domain], Tensor], title: str = "") -> Figure:
    """Points of two domains in the plane, a row for each: themselves, mapped to the other domain, and mapped back.

    ``to`` maps points to the domain that its second argument names. A point keeps its color; the domain it is mapped to
    is gray beneath.
    """
    figure = new_figure(11.4, 7.6, title)
    ways: tuple[tuple[Domain, Domain, Tensor, Tensor], ...] = (("x", "y", x, y), ("y", "x", y, x))
    for row, (here, there, source, target) in enumerate(ways):
        there_mapped = to(source, there)
        back = to(there_mapped, here)
        center = source - source.mean(0)
        shade = torch.atan2(center[:, 1], center[:, 0]).cpu().numpy()
        panels = (
            (f"domain {here}", source, source),
            (f"{here} mapped to {there}", there_mapped, target),
            (f"{here} mapped to {there} and back", back, source),
        )
        for column, (name, points, beneath) in enumerate(panels):
            axes = figure.add_subplot(2, 3, 3 * row + column + 1)
            low, high = window(beneath.cpu().double())
            ground, shown = beneath.cpu().numpy(), points.detach().cpu().numpy()
            if column > 0:
                axes.scatter(ground[:, 0], ground[:, 1], s=4, color=MUTED, alpha=0.25, linewidths=0)
            axes.scatter(shown[:, 0], shown[:, 1], s=5, c=shade, cmap=COLORS, alpha=0.8, linewidths=0)
            dress(axes, name, "feature 1", "feature 2")
            frame(axes, low, high)
    return figure

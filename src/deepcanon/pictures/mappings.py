"""Pictures of a mapping between two domains: there, and back again."""

from __future__ import annotations

from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core.roles import Domain
from deepcanon.pictures.images import rows
from deepcanon.pictures.points import frame, window
from deepcanon.pictures.style import MUTED, dress, new_figure

COLORS = "twilight"
"""A cyclic scale of colors: a point has that of its direction, so that its image is found again."""

To = Callable[[Tensor, Domain], Tensor]
"""A mapping of examples to the domain that is named."""


def mapping(x: Tensor, y: Tensor, to: To, title: str = "", shape: tuple[int, ...] | None = None) -> Figure:
    """The examples of two domains themselves, mapped to the other domain, and mapped back.

    Images have a ``shape``. Points in the plane have none; there a point keeps its color, and the domain it is mapped
    to is gray beneath.
    """
    panels = [(*panel, beneath) for panel, beneath in zip(_cycles(x, y, to), (x, y, x, y, x, y), strict=True)]
    if shape is not None:
        everything = torch.cat([x.flatten(), y.flatten()])
        limits = float(everything.min()), float(everything.max())
        return rows({name: images for name, images, _, _ in panels}, shape, limits=limits, title=title)
    figure = new_figure(11.4, 7.6, title)
    for number, (name, points, source, beneath) in enumerate(panels):
        axes = figure.add_subplot(2, 3, number + 1)
        shown, ground, origin = (part.detach().cpu().double().flatten(1) for part in (points, beneath, source))
        if number % 3 > 0:
            axes.scatter(ground[:, 0], ground[:, 1], s=4, color=MUTED, alpha=0.25, linewidths=0)
        across, up = (origin - origin.mean(0)).T
        axes.scatter(
            shown[:, 0], shown[:, 1], s=5, c=torch.atan2(up, across).numpy(), cmap=COLORS, alpha=0.8, linewidths=0
        )
        dress(axes, name, "feature 1", "feature 2")
        frame(axes, *window(ground))
    return figure


def _cycles(x: Tensor, y: Tensor, to: To) -> list[tuple[str, Tensor, Tensor]]:
    """Of each domain the examples, mapped there, and back, with their names and the examples that they come from."""
    found: list[tuple[str, Tensor, Tensor]] = []
    ways: tuple[tuple[Domain, Domain, Tensor], ...] = (("x", "y", x), ("y", "x", y))
    for here, there, source in ways:
        mapped = to(source, there)
        found += [
            (f"domain {here}", source, source),
            (f"{here} mapped to {there}", mapped, source),
            (f"{here} mapped to {there} and back", to(mapped, here), source),
        ]
    return found

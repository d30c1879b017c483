"""Bar charts: named shares, and the updates of a model's layers by fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.pictures.style import INK, MUTED, PALETTE, colors, dress, legend, new_figure

SHOWN = 24
"""More layers are not shown: the largest updates are."""


def share_bars(shares: Mapping[str, float], title: str = "") -> Figure:
    """A bar chart of shares from 0 to 1 by name; the last one, which is the subject, in color."""
    figure = new_figure(6.4, 0.42 * len(shares) + 1.4, title)  # over all of it: long names leave the axes little room
    axes = figure.add_subplot()
    shades = [*([MUTED] * (len(shares) - 1)), PALETTE[0]]
    axes.barh(list(shares), list(shares.values()), color=shades, height=0.62)
    for row, share in enumerate(shares.values()):
        axes.text(min(share, 1.0) + 0.01, row, f"{share:.1%}", va="center", fontsize=8, color=INK)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])
    dress(axes)
    axes.grid(False, axis="y")
    return figure


def update_norms(updates: Mapping[str, tuple[Tensor, Tensor]], title: str = "") -> Figure:
    """The norm and the singular values of the update of each layer's weight.

    ``updates`` are the weight before and the update added to it, both as matrices, by layer.
    """
    sizes = {name: float(update.norm() / before.norm().clamp_min(1e-12)) for name, (before, update) in updates.items()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:SHOWN]
    names = [name for name in updates if name in largest]
    figure = new_figure(9.6, max(3.2, 0.3 * len(names) + 1.6), title)
    left, right = figure.subplots(1, 2)
    shades = colors(len(names))
    left.barh(names, [sizes[name] for name in names], color=shades, height=0.62)
    left.invert_yaxis()
    dress(left, "size of the update", "‖update‖ / ‖weight‖")
    left.grid(False, axis="y")
    rank = 1
    for name, shade in zip(names, shades, strict=True):
        values = torch.linalg.svdvals(updates[name][1].detach().cpu().double())
        kept = values[values > 1e-6 * values[0]] if values[0] > 0 else values[:1]
        rank = max(rank, len(kept))
        right.plot(range(1, len(kept) + 1), kept, color=shade, marker="o", markersize=4, linewidth=1.2, label=name)
    right.set_xlim(0.7, rank + 0.3)
    right.set_xticks(range(1, rank + 1))
    right.set_ylim(bottom=0)
    dress(right, "its singular values", "direction, largest first")
    if len(names) <= 10:
        legend(right)
    return figure

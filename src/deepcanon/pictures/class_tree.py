"""A tree of classes: the first decisions of a hierarchical softmax, and what lies below each."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.core.plural import counted
from deepcanon.pictures.style import INK, LINE, MUTED, PALETTE, dress, new_figure

LEVELS = 5
NAMED = 4
"""The number of classes by which a subtree is described: its most frequent ones."""


def tree_picture(
    nodes: Tensor, sides: Tensor, counts: Tensor, names: Sequence[str], title: str = "", levels: int = LEVELS
) -> Figure:
    """The first levels of a tree of classes, from the root at the left; lines are as wide as what goes through them.

    ``nodes`` and ``sides`` are the paths to all classes, (classes, depth), ``counts`` how often each class occurs. A
    branch ends at a class, in bold, or at a subtree, by its most frequent classes and the number of all.
    """
    if len(names) != len(nodes) or nodes.shape != sides.shape:
        raise UsageError(
            f"a tree of {counted(len(nodes), 'class', '', 'classes')} needs as many names, got {len(names)}"
        )
    sides, share = sides.cpu().sign().long(), counts.cpu().double() / counts.sum()
    figure = new_figure(9.6, 9.0)
    axes = figure.add_subplot()
    dress(axes, title, "decisions from the root", grid=False)
    bottom = _draw(axes, torch.arange(len(names)), sides, share, names, 0, levels, 0.0)[1]
    axes.set_xlim(-0.15, levels + 2.4)
    axes.set_ylim(bottom + 0.3, -0.7)
    axes.set_xticks(range(levels + 1))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return figure


def _draw(
    axes: Axes, below: Tensor, sides: Tensor, share: Tensor, names: Sequence[str], level: int, levels: int, top: float
) -> tuple[float, float]:
    """Draw the subtree of these classes from the height ``top`` down: the height of its root, and where it ends."""
    if len(below) == 1 or level == levels:
        _name(axes, below, share, names, level, top)
        return top, top + 1
    middles = []
    for side in (1, -1):
        part = below[sides[below, level] == side]
        middle, top = _draw(axes, part, sides, share, names, level + 1, levels, top)
        middles.append((middle, float(share[part].sum())))
    here = (middles[0][0] + middles[1][0]) / 2
    for (middle, through), color in zip(middles, PALETTE, strict=False):
        axes.plot(
            [level, level + 0.35, level + 1], [here, middle, middle], color=color, linewidth=0.8 + 9 * through,
            alpha=0.55, solid_capstyle="round", solid_joinstyle="round",
        )  # fmt: skip
    axes.scatter([level], [here], s=14, color=INK, zorder=3)
    return here, top


def _name(axes: Axes, below: Tensor, share: Tensor, names: Sequence[str], level: int, height: float) -> None:
    most = below[share[below].argsort(descending=True, stable=True)][:NAMED].tolist()
    leaf = len(below) == 1
    words = ", ".join(_short(names[i]) for i in most) + ("" if leaf else f" … ({len(below):,})")
    axes.scatter([level], [height], s=12, color=INK if leaf else LINE, zorder=3)
    axes.text(
        level + 0.08, height, words, fontsize=8, color=INK if leaf else MUTED, va="center",
        fontweight="bold" if leaf else "normal",
    )  # fmt: skip
    axes.text(level - 0.05, height - 0.28, f"{float(share[below].sum()):.1%}", fontsize=6, color=MUTED, ha="right")


def _short(name: str, most: int = 12) -> str:
    shown = name if name.isprintable() and name.strip() else repr(name)
    return shown if len(shown) <= most else shown[: most - 1] + "…"

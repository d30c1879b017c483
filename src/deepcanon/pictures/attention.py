"""Attention maps: the attention weights of every head, and the alignment of a target with its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from torch import Tensor

from deepcanon.core import SequencePairs
from deepcanon.core.roles import Aligns
from deepcanon.pictures.style import INK, MUTED, SHADES, dress, new_figure

MOST_LAYERS, MOST_HEADS = 6, 6
"""More maps than these are too small to be read; of a larger model its first and last layers are shown."""

CROWDED = 64
"""More positions than these have no room for a name each; whoever gives names leaves most of them out."""

VISIBLE = {" ": "·", "\n": "↵", "\t": "⇥"}


def attention_heads(
    maps: Tensor, tokens: Sequence[str], queries: Sequence[str] | None = None, title: str = ""
) -> Figure:
    """Attention maps of every head of every layer, from weights (layers, heads, T, S): each row is a query token.

    ``tokens`` are the keys, S, and also the queries, unless these are given. Shades are square roots of the weights, so
    that a head which attends to many tokens is not white.
    """
    layers, heads, height, length = maps.shape
    shown = list(range(layers))
    if layers > MOST_LAYERS:
        shown = [*range(MOST_LAYERS // 2), *range(layers - MOST_LAYERS // 2, layers)]
    columns = min(heads, MOST_HEADS)
    side = max(2.0, 0.105 * length) if length <= CROWDED else 3.2
    figure = new_figure(columns * side + 0.9, len(shown) * max(1.2, side * height / length) + 0.9, title)
    grid = figure.subplots(len(shown), columns, squeeze=False)
    names = [VISIBLE.get(token, token) for token in tokens]
    others = names if queries is None else [VISIBLE.get(token, token) for token in queries]
    size = min(7.0, 72 * side / length * 0.85) if length <= CROWDED else 6.0
    image = None
    for row, layer in enumerate(shown):
        for head in range(columns):
            axes = grid[row, head]
            image = axes.imshow(
                maps[layer, head].detach().cpu().float().numpy(), cmap=SHADES, norm=PowerNorm(0.5, 0, 1)
            )
            dress(axes, grid=False)
            axes.set_title(f"layer {layer + 1}, head {head + 1}", loc="left", fontsize=8, color=INK, pad=3)
            for spine in axes.spines.values():
                spine.set_visible(False)
            axes.set_xticks(*((range(length), names) if row == len(shown) - 1 else ([],)))  # a tick takes long to draw
            axes.set_yticks(*((range(height), others) if head == 0 else ([],)))
            axes.tick_params(length=0, labelsize=size, pad=1, labelcolor=MUTED)
            turned = max(map(len, names)) > 2
            axes.tick_params(axis="x", labelrotation=90 if turned else 0)
    figure.supxlabel("key: the token that is attended to", fontsize=8, color=MUTED)
    figure.supylabel("query: the token that attends, from top to bottom", fontsize=8, color=MUTED)
    if image is not None:
        _scale(figure, image, grid)
    return figure


def alignment_picture(
    model: Aligns, pairs: SequencePairs, source: Sequence[str], target: Sequence[str], title: str = ""
) -> Figure:
    """Translations of the sources of these pairs, each aligned with its source; the vocabularies name the tokens."""
    translate: Any = model.translate  # of sequences, which have lengths
    y, y_lengths = translate(pairs.x, lengths=pairs.lengths)
    weights = model.alignment(pairs.x, y, lengths=pairs.lengths, y_lengths=y_lengths)
    maps, names = [], []
    for row, (size, end) in enumerate(zip(pairs.lengths.tolist(), y_lengths.tolist(), strict=True)):
        maps.append(weights[row, : end - 1, :size])
        read, written = pairs.x[row, :size].tolist(), y[row, 1:end].tolist()
        names.append(([source[code] for code in read], [target[code] for code in written]))
    return alignments(maps, names, title)


def alignments(maps: Sequence[Tensor], pairs: Sequence[tuple[Sequence[str], Sequence[str]]], title: str = "") -> Figure:
    """Alignments of targets with their sources, from weights (T, S): each row is a target token, from top to bottom.

    ``pairs`` are the tokens of each source, S, and target, T.
    """
    columns = min(2, len(maps))
    lines = -(-len(maps) // columns)
    wide, tall = (max(weights.shape[side] for weights in maps) for side in (1, 0))
    figure = new_figure(columns * (0.19 * wide + 0.6) + 0.9, lines * (0.19 * tall + 0.8) + 0.5, title)
    grid = figure.subplots(lines, columns, squeeze=False).flatten()
    for axes in grid[len(maps) :]:
        axes.axis("off")
    image = None
    for axes, weights, (source, target) in zip(grid, maps, pairs, strict=False):
        image = axes.imshow(weights.detach().cpu().float().numpy(), cmap=SHADES, vmin=0, vmax=1)
        axes.set_xlim(-0.5, wide - 0.5)  # so that the cells of all have one size, and all begin at the left
        axes.set_anchor("NW")
        dress(axes, grid=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        for place, names in ((axes.set_xticks, source), (axes.set_yticks, target)):
            place(range(len(names)), [VISIBLE.get(token, token) for token in names])
        axes.tick_params(length=0, labelsize=7, pad=1, labelcolor=MUTED)
        axes.tick_params(axis="x", labelrotation=90 if max(map(len, source)) > 2 else 0)
    figure.supxlabel("source", fontsize=8, color=MUTED)
    figure.supylabel("target, from top to bottom", fontsize=8, color=MUTED)
    if image is not None:
        _scale(figure, image, grid)
    return figure


def _scale(figure: Figure, image: AxesImage, grid: Any) -> None:
    """What weight each shade stands for, next to all maps."""
    bar = figure.colorbar(
        image, ax=grid, shrink=0.4, pad=0.01, aspect=30, ticks=[0, 0.1, 0.5, 1], format=lambda share, _: f"{share:.0%}"
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=0, labelcolor=MUTED)

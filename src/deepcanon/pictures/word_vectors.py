"""Word vectors (embeddings): a t-SNE map, and a table of nearest neighbors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.core.roles import HasNeighbors
from deepcanon.pictures.style import INK, LINE, MUTED, colors, dress, footnote, new_figure

MAPPED = 180
ASKED = 14
NEIGHBORS = 7
GROUPS = 9
SHORTEST = 4
"""Words of fewer letters occur next to all others and are left out."""


def word_map(directions: Tensor, words: Sequence[str], title: str = "", seed: int = 0) -> Figure:
    """Words in the plane by t-SNE on the cosine distances of their vectors, colored by k-means clusters.

    A word whose name would lie over another's has a dot only; those that come first keep their names.
    """
    if len(words) < 4:
        raise UsageError(f"a map of words needs at least 4 of them, got {len(words)}")
    from sklearn.cluster import KMeans  # slow to import
    from sklearn.manifold import TSNE

    vectors = directions.detach().cpu().double().numpy()
    plane = TSNE(
        metric="cosine", init="random", perplexity=min(12, (len(words) - 1) / 3), random_state=seed
    ).fit_transform(vectors)
    groups = KMeans(min(GROUPS, len(words) // 2), n_init=4, random_state=seed).fit_predict(vectors)
    palette = colors(GROUPS)
    figure = new_figure(9, 6.6)
    axes = figure.add_subplot()
    dress(axes, title, grid=False)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlim(*_range(plane[:, 0]))
    axes.set_ylim(*_range(plane[:, 1]))
    footnote(
        figure, "t-SNE of the cosines between the vectors; colors: k-means; a dot is a word without room for its name."
    )
    figure.draw_without_rendering()
    taken: list[Bbox] = []
    for (x, y), word, group in zip(plane.tolist(), words, groups, strict=True):
        text = axes.text(x, y, word, fontsize=8, color=palette[group], ha="center", va="center")
        box = text.get_window_extent().expanded(1.04, 1.0)
        if any(box.overlaps(other) for other in taken):
            text.remove()
            axes.scatter([x], [y], s=7, color=palette[group], alpha=0.5, linewidths=0)
        else:
            taken.append(box)
    return figure


def neighbor_table(neighbors: Sequence[tuple[str, Sequence[tuple[str, float]]]], title: str = "") -> Figure:
    """A table of nearest neighbors: one row per word, nearest first, with the cosine similarities."""
    if not neighbors:
        raise UsageError("a table of neighbors needs at least one word")
    columns = max(len(found) for _, found in neighbors)
    figure = new_figure(1.5 + 1.25 * columns, 0.6 + 0.36 * len(neighbors), title)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(0, columns + 1)
    axes.set_ylim(len(neighbors), 0)
    for row, (word, found) in enumerate(neighbors):
        axes.axhline(row, color=LINE, linewidth=0.6)
        axes.text(0, row + 0.5, _short(word), fontsize=9, fontweight="bold", color=INK, va="center")
        for column, (near, cosine) in enumerate(found, start=1):
            strength = 0.35 + 0.65 * min(1.0, max(0.0, cosine))
            axes.text(column, row + 0.42, _short(near), fontsize=8.5, color=INK, alpha=strength, va="center")
            axes.text(column, row + 0.8, f"{cosine:.2f}", fontsize=6, color=MUTED, alpha=strength, va="center")
    return figure


def word_pictures(model: HasNeighbors, words: Sequence[str], title: str, seed: int) -> dict[str, Figure]:
    """A map of the first words, which are the most frequent ones, and a table of nearest neighbors for some of them."""
    telling = [number for number, word in enumerate(words) if len(word) >= SHORTEST and word.isalpha()]
    if len(telling) < 4:
        return {}
    shown = telling[:MAPPED]
    some = shown[:: -(-len(shown) // ASKED)]
    asked = [(words[number], model.nearest(number, NEIGHBORS)) for number in some]
    name = f"{title}: the {len(shown)} most frequent words of {SHORTEST} letters or more"
    return {
        "word_map": word_map(model.directions()[shown], [words[number] for number in shown], name, seed),
        "neighbors": neighbor_table(asked, f"{title}: some frequent words and those nearest to them, by cosine"),
    }


def _range(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * (high - low)
    return low - margin, high + margin


def _short(word: str, most: int = 14) -> str:
    return word if len(word) <= most else word[: most - 1] + "…"

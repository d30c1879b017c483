"""Tables with missing entries, completed by a model, and its predictions of held-out entries."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure
from torch import Tensor

from deepcanon.core.plural import counted
from deepcanon.pictures.style import INK, LINE, MUTED, PALETTE, SHADES, dress, new_figure

ROWS, COLUMNS = 30, 60


def completion(
    x: Tensor, completed: Tensor, title: str = "", axes_names: tuple[str, str] = ("column", "row")
) -> Figure:
    """The first rows of a table, (B, columns), NaN where an entry is missing, above the same rows ``completed``.

    ``axes_names`` are what columns and rows stand for.
    """
    given, full = (values[:ROWS, :COLUMNS].detach().cpu().double() for values in (x, completed))
    low, high = float(full.min()), float(full.max())
    wide = full.shape[1] > full.shape[0]
    figure = new_figure(7.6, 6.4 if wide else 5.2, title)
    panels = figure.subplots(2, 1) if wide else figure.subplots(1, 2)
    for axes, values, name in zip(panels, (given, full), ("what is given", "completed by expectations"), strict=True):
        axes.set_facecolor(LINE)  # shows where nothing is
        image = axes.imshow(values.numpy(), cmap=SHADES, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
        dress(axes, name, *axes_names, grid=False)
    bar = figure.colorbar(image, ax=list(panels), shrink=0.7, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=0)
    return figure


def held_out_plot(predicted: Tensor, true: Tensor, title: str = "") -> Figure:
    """Predictions of held-out entries by their true value: how they are spread, and their mean."""
    values, truth = (t.detach().cpu().double() for t in (predicted, true))
    kinds = truth.unique().tolist()
    figure = new_figure(5.4, 4.2, title)
    axes = figure.add_subplot()
    error = float((values - truth).square().mean().sqrt())
    axes.boxplot(
        [values[truth == kind].numpy() for kind in kinds], positions=kinds, widths=0.5, showfliers=False,
        showmeans=True, patch_artist=True, medianprops={"color": INK},
        boxprops={"facecolor": SHADES(0.35), "edgecolor": MUTED}, whiskerprops={"color": MUTED},
        capprops={"color": MUTED},
        meanprops={"marker": "o", "markerfacecolor": PALETTE[1], "markeredgecolor": "white", "markersize": 6},
    )  # fmt: skip
    ends = torch.tensor([min(kinds), max(kinds)])
    axes.plot(ends, ends, color=MUTED, linewidth=1, linestyle="--")
    axes.set_xticks(kinds, [f"{kind:g}" for kind in kinds])
    dress(
        axes,
        f"{counted(len(truth), 'held-out entry', '', 'held-out entries')}: rmse {error:.3f}",
        "true value",
        "expected value",
    )
    return figure

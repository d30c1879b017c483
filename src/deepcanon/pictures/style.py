"""The style of every picture: one palette that color-blind readers can tell apart, quiet axes, files written whole."""

from __future__ import annotations

from pathlib import Path

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from deepcanon.core import UsageError
from deepcanon.core.errors import shortened
from deepcanon.core.finding import save_figure

INK = "#1f2933"
MUTED = "#66727f"
LINE = "#dde2e7"

# Okabe and Ito's colors without their yellow, which is too pale on white, then three of Tol's muted scheme.
PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#332288", "#882255", "#999933", "#444444",
)  # fmt: skip

SHADES = LinearSegmentedColormap.from_list("shades", ["#ffffff", "#cfe3f1", "#6fb0d8", "#0072B2", "#004166"])

LONGEST_TITLE = 160
"""A longer title, of a file in a deep folder for example, is cut."""

FORMATS = ("png", "svg", "pdf")


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """An empty figure of this size in inches, outside pyplot's global list of figures."""
    figure = Figure(figsize=(width, height), dpi=150, facecolor="white", layout="constrained")
    if title:
        figure.suptitle(shortened(title, LONGEST_TITLE), x=0.012, ha="left", fontsize=12, fontweight="bold", color=INK)
    return figure


def dress(axes: Axes, title: str = "", x: str = "", y: str = "", grid: bool = True) -> None:
    """Give axes their title and labels, and take away what distracts."""
    axes.set_title(shortened(title, LONGEST_TITLE), loc="left", fontsize=10, fontweight="bold", color=INK, pad=8)
    axes.set_xlabel(x, fontsize=9, color=MUTED)
    axes.set_ylabel(y, fontsize=9, color=MUTED)
    axes.tick_params(labelsize=8, color=LINE, labelcolor=MUTED, which="both")
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(LINE)
    if grid:
        axes.grid(True, color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)


def legend(axes: Axes) -> Legend:
    """A legend on a pale sheet without a frame."""
    return axes.legend(fontsize=8, labelcolor=INK, handlelength=1.6, edgecolor="none", framealpha=0.75)


def colors(count: int) -> list[str]:
    """As many colors as there are things to tell apart; the palette first, then an even scale.

    >>> colors(2)
    ['#0072B2', '#D55E00']
    """
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    scale = colormaps["viridis"]
    return [to_hex(scale(i / (count - 1))) for i in range(count)]


def save(figure: Figure, path: Path | str) -> Path:
    """Write the figure and empty it; the file appears whole or not at all."""
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise UsageError(f"a picture is written as {', '.join(FORMATS)}; {path.name!r} ends in none of them")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        save_figure(figure, path)
    finally:
        figure.clear()
    return path

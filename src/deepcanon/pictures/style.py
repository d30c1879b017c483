"""The style of every picture: one palette that color-blind readers can tell apart, quiet axes, files written whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from deepcanon.core import UsageError
from deepcanon.core.errors import shortened
from deepcanon.core.finding import drawn, save_figure

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

ROOM = 12
"""How often an axis may be made a tenth longer for a legend."""


class Sheet(Figure):
    """A figure that breaks its titles into lines where they would run out of it, or into the panel next to them.

    Above bars it makes room for the legend. A notebook displays it without pyplot.
    """

    def _repr_png_(self) -> bytes:
        return drawn(self)

    def savefig(self, fname: Any, **how: Any) -> None:
        """As of any figure. A plain PNG is drawn once, where matplotlib draws all of it twice to find the layout."""
        if how.get("format") != "png" or how.keys() - {"format", "dpi"}:
            super().savefig(fname, **how)
            return
        before, dpi = self.canvas, self.dpi
        canvas: Any = FigureCanvasAgg(self)
        try:
            self.dpi = how.get("dpi", dpi)
            self._fit(canvas.get_renderer())
            if self.axes and (engine := self.get_layout_engine()) is not None:
                engine.execute(self)
            with self._cm_set(layout_engine="none"):  # type: ignore[attr-defined]
                canvas.print_png(fname)
        finally:
            self.dpi = dpi
            self.set_canvas(before)

    def draw(self, renderer: Any) -> None:
        self._fit(renderer)
        super().draw(renderer)

    def _fit(self, renderer: Any) -> None:
        _break_titles(self, renderer)
        barred = [(axes, words) for axes in self.axes if (words := axes.get_legend()) is not None and _bars(axes)]
        engine = self.get_layout_engine()
        if barred and engine is not None:
            engine.execute(self)
        for axes, words in barred:
            _free_bars(axes, words, renderer)


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """An empty figure of this size in inches, outside pyplot's global list of figures."""
    figure = Sheet(figsize=(width, height), dpi=150, facecolor="white", layout="constrained")
    if title:
        headline(figure, shortened(title, LONGEST_TITLE))
    return figure


def headline(figure: Figure, title: str) -> None:
    """Give a figure its title, at the left above everything."""
    figure.suptitle(title, x=0.012, ha="left", fontsize=12, fontweight="bold", color=INK)


def footnote(figure: Figure, words: str) -> None:
    """Say below everything, in small letters, how what is shown was made."""
    figure.supxlabel(words, x=0.012, ha="left", fontsize=8, color=MUTED)


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


def shared_legend(figure: Figure, axes: Axes) -> Legend:
    """One legend for panels that show the same, taken from one of them, below all, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    return figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, labelcolor=INK, handlelength=1.6,
        edgecolor="none",
    )  # fmt: skip


def _break_titles(figure: Figure, renderer: Any) -> None:
    """Break the lines of all titles that are wider than their room; what lies below then moves down by the layout."""
    whole = figure.bbox.width
    for text in (figure._suptitle, figure._supxlabel):  # type: ignore[attr-defined]
        if text is not None:
            _break_lines(text, renderer, 0.976 * whole)
    for axes in figure.axes:
        axes.apply_aspect()  # which makes panels of equal axes smaller
    if not any(
        text.get_text() and text.get_window_extent(renderer).width > axes.get_window_extent(renderer).width
        for axes in figure.axes
        for text in (axes._left_title, axes.title)  # type: ignore[attr-defined]
    ):
        return  # all fit above their panels, and the layout, which takes its time, is done once
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        for axes in figure.axes:
            axes.apply_aspect()
    boxes = {axes: axes.get_window_extent(renderer) for axes in figure.axes}
    for axes, box in boxes.items():
        nearby = [
            other.x0 for other in boxes.values() if other.x0 >= box.x1 and other.y0 < box.y1 and box.y0 < other.y1
        ]
        room = min([0.994 * whole, *(left - 0.25 * figure.dpi for left in nearby)]) - box.x0
        for text in (axes._left_title, axes.title):  # type: ignore[attr-defined]
            _break_lines(text, renderer, room)


def _bars(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def _free_bars(axes: Axes, words: Legend, renderer: Any) -> None:
    """Raise the upper end of the axis until the legend hides no bar."""
    for _ in range(ROOM):
        box = words.get_window_extent(renderer).padded(6)
        if not any(box.overlaps(bar.get_window_extent(renderer)) for bar in _bars(axes)):
            return
        above = axes.transAxes.transform((0, 1.1))  # on the page, so that it suits a logarithmic axis, too
        axes.set_ylim(top=float(axes.transData.inverted().transform(above)[1]))


def _break_lines(text: Text, renderer: Any, width: float) -> None:
    """Break the lines of a text between words, so that none is wider; a single word that is wider stays."""

    def measured(words: list[str]) -> float:
        text.set_text(" ".join(words))
        return text.get_window_extent(renderer).width

    before = text.get_text()
    lines: list[list[str]] = []
    for line in before.split("\n"):
        lines.append([])
        for word in line.split(" "):
            if lines[-1] and measured([*lines[-1], word]) > width:
                lines.append([])
            lines[-1].append(word)
    text.set_text("\n".join(" ".join(line) for line in lines))


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
    """Write the figure; the file appears whole or not at all."""
    path = Path(path)
    kind = path.suffix.removeprefix(".").lower()
    if kind not in FORMATS:
        raise UsageError(f"a picture is written as {', '.join(FORMATS)}; {path.name!r} ends in none of them")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)
    return path

"""Legibility of figures: whether their words are whole, and hide neither each other nor what is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

SLACK = 1.5
"""How many pixels a box may reach over, since letters do not fill their boxes."""


def faults(figure: Figure) -> list[str]:
    """What cannot be read in a figure: words that are cut off, or collide, and legends over bars or words.

    >>> from deepcanon.pictures.style import new_figure
    >>> figure = new_figure(2, 1)
    >>> _ = figure.text(0.9, 0.5, "too far to the right")
    >>> faults(figure)
    ["'too far to the right' is cut off"]
    """
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    whole = figure.bbox.padded(SLACK)
    found = []
    headings = {id(text): text for text in _headings(figure)}
    for text in (*headings.values(), *_inner(figure)):
        box = text.get_window_extent(renderer)
        if not (whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1):
            found.append(f"{text.get_text()!r} is cut off")
    boxes = [(text, text.get_window_extent(renderer)) for text in headings.values()]
    found += [
        f"{one.get_text()!r} and {other.get_text()!r} collide"
        for (one, first), (other, second) in combinations(boxes, 2)
        if _overlap(first, second)
    ]
    for axes in _axes(figure):
        found += _of_legend(axes, renderer)
        for axis in (axes.xaxis, axes.yaxis):
            labels = [(label, label.get_window_extent(renderer)) for label in _tick_labels(axes, axis)]
            found += [
                f"the tick labels {one.get_text()!r} and {other.get_text()!r} collide"
                for (one, first), (other, second) in combinations(labels, 2)
                if _overlap(first, second)
            ]
    return list(dict.fromkeys(found))


def _headings(figure: Figure) -> Iterator[Text]:
    """Titles and labels of the figure and of its axes."""
    parts: list[Any] = [figure, *figure.findobj(SubFigure)]
    for part in parts:
        for text in (part._suptitle, part._supxlabel, part._supylabel):
            if text is not None and text.get_text():
                yield text
    for axes in _axes(figure):
        own = [axes.title, axes._left_title, axes._right_title]
        if axes.axison:
            own += [axes.xaxis.label, axes.yaxis.label]
        yield from (text for text in own if _seen(text))


def _axes(figure: Figure) -> list[Any]:
    """All axes; matplotlib has no public names for their titles to the left and for the ticks that are drawn."""
    return list(figure.findobj(Axes))


def _inner(figure: Figure) -> Iterator[Text]:
    """All other words but those that are clipped on purpose."""
    for axes in _axes(figure):
        yield from (text for text in axes.texts if _seen(text) and not text.get_clip_on())
        legend = axes.get_legend()
        if legend is not None:
            yield from (text for text in legend.get_texts() if _seen(text))
        for axis in (axes.xaxis, axes.yaxis):
            yield from _tick_labels(axes, axis)
    for legend in figure.legends:
        yield from (text for text in legend.get_texts() if _seen(text))
    yield from (text for text in figure.texts if _seen(text))


def _tick_labels(axes: Any, axis: Any) -> list[Text]:
    if not axes.axison or not axes.get_visible():
        return []
    labels = [label for tick in axis._update_ticks() for label in (tick.label1, tick.label2)]
    return [label for label in labels if _seen(label)]


def _of_legend(axes: Any, renderer: Any) -> list[str]:
    """Whether the legend lies over bars or words of its axes."""
    legend = axes.get_legend()
    if legend is None:
        return []
    box = legend.get_window_extent(renderer)
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_visible()]
    hidden = [
        f"the legend of {_name(axes)} hides a bar" for bar in bars if _overlap(box, bar.get_window_extent(renderer))
    ]
    hidden += [
        f"the legend of {_name(axes)} hides {text.get_text()!r}"
        for text in axes.texts
        if _seen(text) and _overlap(box, text.get_window_extent(renderer))
    ]
    return hidden[:1]


def _name(axes: Any) -> str:
    return repr(axes.get_title("left") or axes.get_title() or axes.get_ylabel() or "the axes")


def _seen(text: Text) -> bool:
    return bool(text.get_text().strip()) and text.get_visible()


def _overlap(one: Bbox, other: Bbox) -> bool:
    across = min(one.x1, other.x1) - max(one.x0, other.x0)
    up = min(one.y1, other.y1) - max(one.y0, other.y0)
    return bool(across > SLACK and up > SLACK)

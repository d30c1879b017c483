"""Small SVG charts, which take their colors from the page, light or dark."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import median

from deepcanon.core.svg import Point, Scale, middle, number, spread

WIDTH, HEIGHT = 320, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 30
HUES = 8
"""The number of colors of named curves; the page has a style for each, and the ninth has that of the first."""
LONGEST = 48
"""The characters of a name in a chart; the rest of a longer one is left out."""
ROOM, NEXT_LINE = 34, 15
"""The characters in a line of a name next to a chart, and how far below it the next line is."""
FAR = 10.0
"""The factor of the distance from the best value to the median by which a value may lie below the best to be drawn."""


def lines(series: Sequence[Sequence[Point]], x_label: str, pale: Sequence[Sequence[Point]] = ()) -> str:
    """Curves in one chart; the ``pale`` ones in the background. The vertical range is that of most values."""
    every = [point for curve in (*series, *pale) for point in curve]
    across = Scale(*spread([x for x, _ in every], 0.0), LEFT, WIDTH - RIGHT)
    up = Scale(*middle([y for _, y in every]), HEIGHT - BOTTOM, TOP)
    drawn = [_curve(curve, across, up, "pale") for curve in pale] + [
        _curve(curve, across, up, "curve") for curve in series
    ]
    return _chart(across, up, "".join(drawn), x_label)


def growth(curves: Mapping[str, Sequence[tuple[float, Sequence[float]]]], x_label: str) -> str:
    """Named curves over counts, which are spaced by their ratios: lines through the means, and a dot for each value."""
    right = 56 + 8 * min(LONGEST, max(map(len, curves)))
    width, height = 540 + right, 60 + 24 * max(9, len(curves))
    counts = sorted({count for curve in curves.values() for count, _ in curve})
    values = [value for curve in curves.values() for _, several in curve for value in several]
    across = Scale(*spread([math.log(count) for count in counts], 0.04), 60, width - right)
    up = Scale(*middle(values), height - BOTTOM - 10, TOP)
    parts = [
        f'<line class="grid" x1="60" x2="{width - right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>'
        f'<text class="tick" x="54" y="{up(tick) + 3.5:.1f}" text-anchor="end">{number(tick)}</text>'
        for tick in up.ticks()
    ]
    parts += [
        f'<text class="tick" x="{across(math.log(each)):.1f}" y="{height - 22}" text-anchor="middle">{each:,.0f}</text>'
        for each in counts
    ]

    def at(value: float) -> float:
        return min(max(up(value), TOP), height - BOTTOM - 10)

    for place, (name, curve) in enumerate(curves.items()):
        style = f"hue{place % HUES}"
        means = [(across(math.log(count)), at(math.fsum(several) / len(several))) for count, several in curve]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in means)
        parts.append(f'<polyline class="named {style}" points="{line}"/>')
        parts += [
            f'<circle class="{style}" cx="{across(math.log(count)):.1f}" cy="{at(value):.1f}" r="3.5"/>'
            for count, several in curve
            for value in several
        ]
        y = TOP + 16 + 24 * place
        parts.append(
            f'<line class="named {style}" x1="{width - right + 16}" x2="{width - right + 40}" y1="{y}" y2="{y}"/>'
        )
        parts.append(f'<text class="name" x="{width - right + 46}" y="{y + 4}">{html.escape(_cut(name))}</text>')
    label = f'<text class="tick" x="{width - right}" y="{height - 4}" text-anchor="end">{html.escape(x_label)}</text>'
    return f'<svg class="ladder" viewBox="0 0 {width} {height}" role="img">{"".join(parts)}{label}</svg>'


def cloud(points: Sequence[Point], behind: Sequence[Point], window: tuple[Point, Point]) -> str:
    """A scatter plot of points in front of others; what lies outside the window is left out."""
    (left, low), (right, high) = window
    side = WIDTH - 20
    across, up = Scale(left, right, 10, 10 + side), Scale(low, high, 10 + side, 10)
    dots = [
        f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="{radius}" class="{name}"/>'
        for name, radius, group in (("behind", 1.6, behind), ("dot", 1.9, points))
        for x, y in group
        if left <= x <= right and low <= y <= high
    ]
    frame = f'<rect class="frame" x="10" y="10" width="{side}" height="{side}"/>'
    return f'<svg viewBox="0 0 {WIDTH} {WIDTH}" role="img">{frame}{"".join(dots)}</svg>'


def ladder(rows: Mapping[str, Sequence[tuple[float, str]]], unit: str) -> str:
    """A dot chart of log-likelihoods: one line for each name with a dot for each value, by its kind.

    Exact values are filled, lower bounds are open with an arrow to where the exact value may be, others are open. A
    value so far below the others that their differences could not be seen is written at the left edge.
    """
    width, line = 760, 30
    texts = [_broken(name) for name in rows]
    names = 40 + 8 * max(len(each) for text in texts for each in text)
    tops = list(accumulate((line + NEXT_LINE * (len(text) - 1) for text in texts), initial=6))
    height = tops[-1] + 38
    values = [value for pairs in rows.values() for value, _ in pairs]
    least = max(values) - (FAR * (max(values) - median(values)) or math.inf)
    across = Scale(*spread([value for value in values if value >= least], 0.08), names, width - 40)
    parts = [
        f'<line class="grid" x1="{across(tick):.1f}" x2="{across(tick):.1f}" y1="6" y2="{height - 34}"/>'
        f'<text class="tick" x="{across(tick):.1f}" y="{height - 18}" text-anchor="middle">{number(tick)}</text>'
        for tick in across.ticks(6)
    ]
    for text, top, bottom, pairs in zip(texts, tops, tops[1:], rows.values(), strict=False):
        y = (top + bottom) / 2
        for place, each in enumerate(text):
            at = f'x="{names - 16}" y="{y + 4 + NEXT_LINE * (place - (len(text) - 1) / 2):.1f}"'
            parts.append(f'<text class="name" {at} text-anchor="end">{html.escape(each)}</text>')
        off = [number(value) for value, _ in pairs if value < least]
        if off:
            words = f"\N{LEFTWARDS ARROW} {', '.join(dict.fromkeys(off))}"
            parts.append(f'<text class="tick" x="{names}" y="{y + 4}">{words}</text>')
        for value, kind in pairs:
            if value < least:
                continue
            x = across(value)
            if kind == "lower bound":
                parts.append(f'<path class="arrow" d="M{x + 6:.1f} {y} h16 m-5 -4 l5 4 l-5 4"/>')
            style = "dot" if kind == "exact" else "open"
            words = f"<title>{number(value)} nats, {kind}</title>"
            parts.append(f'<circle class="{style}" cx="{x:.1f}" cy="{y}" r="5.5">{words}</circle>')
    parts.append(f'<text class="tick" x="{width - 40}" y="{height - 3}" text-anchor="end">{html.escape(unit)}</text>')
    return f'<svg class="ladder" viewBox="0 0 {width} {height}" role="img">{"".join(parts)}</svg>'


def _broken(name: str) -> list[str]:
    """A name in lines that have room next to a chart, broken between its arguments.

    >>> _broken("flow_vae:likelihood=bernoulli,flow=planar,transforms=10")
    ['flow_vae:likelihood=bernoulli,', 'flow=planar,transforms=10']
    """
    found = [""]
    for part in re.split(r"(?<=[,:])", name):
        if found[-1] and len(found[-1] + part) > ROOM:
            found.append("")
        found[-1] += part
    return [_cut(each) for each in found]


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _curve(points: Sequence[Point], across: Scale, up: Scale, style: str) -> str:
    drawn = " ".join(f"{across(x):.1f},{min(max(up(y), TOP), HEIGHT - BOTTOM):.1f}" for x, y in points)
    return f'<polyline class="{style}" points="{drawn}"/>'


def _chart(across: Scale, up: Scale, inside: str, x_label: str) -> str:
    grid = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>'
        f'<text class="tick" x="{LEFT - 6}" y="{up(tick) + 3.5:.1f}" text-anchor="end">{number(tick)}</text>'
        for tick in up.ticks()
    )
    low = HEIGHT - BOTTOM + 15
    below = "".join(
        f'<text class="tick" x="{across(tick):.1f}" y="{low}" text-anchor="middle">{number(tick)}</text>'
        for tick in across.ticks()
    )
    label = f'<text class="tick" x="{WIDTH - RIGHT}" y="{HEIGHT - 2}" text-anchor="end">{html.escape(x_label)}</text>'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{grid}{below}{inside}{label}</svg>'

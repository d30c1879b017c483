"""Small SVG charts, which take their colors from the page, light or dark."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

Point = tuple[float, float]

WIDTH, HEIGHT = 320, 190
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 10, 30
FAR = 10.0
"""The factor of the distance from the best value to the median by which a value may lie below the best to be drawn."""


def number(value: float) -> str:
    """A number to read: four digits, with a true minus sign.

    >>> number(-0.123456), number(12000.0)
    ('−0.1235', '12,000')
    """
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "\N{MINUS SIGN}")


@dataclass(frozen=True)
class Scale:
    """A linear map from values to coordinates."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int = 4) -> list[float]:
        """Round values inside the range.

        >>> Scale(0.1, 9.7, 0, 1).ticks()
        [2.0, 4.0, 6.0, 8.0]
        """
        raw = (self.high - self.low) / count
        power: float = 10.0 ** math.floor(math.log10(raw))
        step = next(size * power for size in (1, 2, 5, 10) if size * power >= 0.7 * raw)
        first = math.ceil(self.low / step)
        return [round(i * step, 12) for i in range(first, math.floor(self.high / step) + 1)]


def spread(values: Sequence[float], margin: float = 0.06) -> tuple[float, float]:
    """The range of values with some room around; never empty."""
    low, high = min(values), max(values)
    room = margin * (high - low) or max(1e-9, abs(high) * 0.1) or 1.0
    return low - room, high + room


def lines(series: Sequence[Sequence[Point]], x_label: str, pale: Sequence[Sequence[Point]] = ()) -> str:
    """Curves in one chart; the ``pale`` ones in the background. The vertical range is that of most values."""
    every = [point for curve in (*series, *pale) for point in curve]
    across = Scale(*spread([x for x, _ in every], 0.0), LEFT, WIDTH - RIGHT)
    up = Scale(*_middle([y for _, y in every]), HEIGHT - BOTTOM, TOP)
    drawn = [_curve(curve, across, up, "pale") for curve in pale] + [
        _curve(curve, across, up, "curve") for curve in series
    ]
    return _chart(across, up, "".join(drawn), x_label)


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
    names = min(320, 40 + 8 * max(map(len, rows)))
    height = line * len(rows) + 44
    values = [value for pairs in rows.values() for value, _ in pairs]
    least = max(values) - (FAR * (max(values) - median(values)) or math.inf)
    across = Scale(*spread([value for value in values if value >= least], 0.08), names, width - 40)
    parts = [
        f'<line class="grid" x1="{across(tick):.1f}" x2="{across(tick):.1f}" y1="6" y2="{height - 34}"/>'
        f'<text class="tick" x="{across(tick):.1f}" y="{height - 18}" text-anchor="middle">{number(tick)}</text>'
        for tick in across.ticks(6)
    ]
    for row, (name, pairs) in enumerate(rows.items()):
        y = 6 + line * (row + 0.5)
        parts.append(f'<text class="name" x="{names - 16}" y="{y + 4}" text-anchor="end">{html.escape(name)}</text>')
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


def _middle(values: Sequence[float]) -> tuple[float, float]:
    """The range without the highest and lowest hundredth: the first steps of a training would flatten all others."""
    ordered = sorted(values)
    cut = len(ordered) // 50
    return spread(ordered[cut : len(ordered) - cut])


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

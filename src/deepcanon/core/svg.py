"""Small drawings in SVG for notebooks: curves, points, bars and graphs, in the colors of the page around them.

Ink is the page's own text color, so that a drawing suits a dark page as well as a light one; the other colors stand out
from both.
"""

from __future__ import annotations

import base64
import html
import math
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from deepcanon.core.errors import shortened

Point = tuple[float, float]

COLORS = ("#2f7fc1", "#d55e00", "#0a9468", "#b9619b", "#a8790b", "#7a6fd0")
"""Each has a contrast of at least 3 to 1 to white and to almost black."""
WIDTH, HEIGHT = 560, 220
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 10, 34
BUCKETS = 180
"""A curve has no more points than can be told apart: each is the mean of its records, in a band from least to most."""
LONGEST_NAME = 48
"""The characters of a name in a drawing; the rest of a longer one is left out."""


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


def middle(values: Sequence[float]) -> tuple[float, float]:
    """The range without the highest and lowest hundredth: the first steps of a training would flatten all others."""
    ordered = sorted(values)
    cut = len(ordered) // 50
    return spread(ordered[cut : len(ordered) - cut])


def curves(series: Mapping[str, Sequence[Point]], x_label: str, y_label: str) -> str:
    """Named curves in one chart, each point a mean with a band from its least to its most.

    Values that are not finite are left out.

    >>> drawing = curves({"loss": [(1, 2.0), (2, 1.0)]}, "step", "nats")
    >>> drawing.count("<polyline"), "loss" in drawing
    (1, True)
    """
    kept = {name: [(x, y) for x, y in points if math.isfinite(y)] for name, points in series.items()}
    kept = {name: points for name, points in kept.items() if points}
    if not kept:
        return ""
    every = [point for points in kept.values() for point in points]
    across = Scale(*spread([x for x, _ in every], 0.0), LEFT, WIDTH - RIGHT)
    up = Scale(*middle([y for _, y in every]), HEIGHT - BOTTOM, TOP)
    drawn = "".join(
        _curve(points, across, up, COLORS[place % len(COLORS)]) for place, points in enumerate(kept.values())
    )
    words = f"{y_label} by {x_label}: {', '.join(kept)}"
    return _sheet(HEIGHT, words, _axes(across, up, x_label, y_label) + drawn) + _legend(kept)


def scatter(groups: Mapping[str, Sequence[Point]]) -> str:
    """Points in the plane, a color for each group.

    >>> scatter({"upper": [(0.0, 1.0), (2.0, 3.0)]}).count("<circle")
    2
    """
    every = [point for points in groups.values() for point in points]
    across = Scale(*spread([x for x, _ in every]), LEFT, WIDTH - RIGHT)
    up = Scale(*spread([y for _, y in every]), HEIGHT - BOTTOM, TOP)
    dots = "".join(
        f'<circle cx="{across(x):.0f}" cy="{up(y):.0f}" r="2" fill="{COLORS[place % len(COLORS)]}"/>'
        for place, points in enumerate(groups.values())
        for x, y in points
    )
    legend = _legend(groups) if len(groups) > 1 else ""
    return (
        _sheet(HEIGHT, f"{len(every)} points", _axes(across, up, "x\N{SUBSCRIPT ONE}", "x\N{SUBSCRIPT TWO}") + dots)
        + legend
    )


def bars(counts: Mapping[str, float]) -> str:
    """A bar for each name, with its count behind it.

    >>> bars({"a": 3, "b": 1}).count("<rect")
    2
    """
    names, line = 130, 17
    most = max([*counts.values(), 1e-12])
    parts = []
    for place, (name, count) in enumerate(counts.items()):
        y, width = place * line + 2, (WIDTH - names - 80) * count / most
        parts.append(
            f'<text x="{names - 6}" y="{y + 11}" text-anchor="end">{cut(name, 20)}</text>'
            f'<rect x="{names}" y="{y}" width="{width:.0f}" height="13" fill="{COLORS[0]}"/>'
            f'<text x="{names + width + 5:.0f}" y="{y + 11}">{number(count)}</text>'
        )
    return _sheet(len(counts) * line + 4, "counts", "".join(parts))


def network(
    points: Sequence[Point], edges: Iterable[tuple[int, int]], names: Sequence[str], groups: Sequence[int]
) -> str:
    """Nodes at their places with the edges between them; a name appears where one points at its node.

    >>> network([(0, 0), (1, 1)], [(0, 1)], ["a", "b"], [0, 1]).count("<line")
    1
    """
    side = 300
    across = Scale(*spread([x for x, _ in points]), 0, side)
    up = Scale(*spread([y for _, y in points]), side, 0)
    places = [(across(x), up(y)) for x, y in points]
    wires = "".join(
        f'<line x1="{places[a][0]:.0f}" y1="{places[a][1]:.0f}" x2="{places[b][0]:.0f}" y2="{places[b][1]:.0f}"/>'
        for a, b in edges
    )
    dots = "".join(
        f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4" fill="{COLORS[group % len(COLORS)]}">'
        f"<title>{cut(name)}</title></circle>"
        for (x, y), name, group in zip(places, names, groups, strict=True)
    )
    inside = f'<g stroke="currentColor" stroke-opacity="0.3">{wires}</g>{dots}'
    return _sheet(side, f"a graph of {len(points)} nodes", inside, width=side)


def picture_strip(images: Tensor, captions: Sequence[str] = ()) -> str:
    """Images (B, 1 or 3, height, width) next to each other, scaled to their own least and largest value."""
    low, high = float(images.min()), float(images.max())
    gray = ((images.float() - low) / max(high - low, 1e-12) * 255).round().byte().cpu()
    shown = "".join(
        f'<span style="display: inline-block; margin: 2px; text-align: center">'
        f'<img width="56" style="image-rendering: pixelated" alt="example {place}" '
        f'src="data:image/png;base64,{base64.b64encode(png(image)).decode()}"><br>'
        f"<small>{cut(caption, 12)}</small></span>"
        for place, (image, caption) in enumerate(zip(gray, captions or [""] * len(gray), strict=True))
    )
    return f"<div>{shown}</div>"


def png(image: Tensor) -> bytes:
    """The file of an image of bytes (1 or 3, height, width).

    >>> import torch
    >>> png(torch.zeros(1, 2, 2, dtype=torch.uint8))[:4]
    b'\\x89PNG'
    """
    channels, height, width = image.shape
    rows = image.permute(1, 2, 0).reshape(height, width * channels).contiguous().numpy()
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    head = struct.pack(">2I5B", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


def cut(name: str, longest: int = LONGEST_NAME) -> str:
    """A name that is not too long, as text of a page."""
    return html.escape(shortened(name, longest))


def _buckets(points: Sequence[Point]) -> list[tuple[float, float, float, float]]:
    """Place, least, mean and most of as many groups of neighbors as can be told apart."""
    size = math.ceil(len(points) / BUCKETS)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        (math.fsum(x for x, _ in group) / len(group), min(ys), math.fsum(ys) / len(ys), max(ys))
        for group in groups
        for ys in [[y for _, y in group]]
    ]


def _curve(points: Sequence[Point], across: Scale, up: Scale, color: str) -> str:
    def at(value: float) -> float:
        return min(max(up(value), TOP), HEIGHT - BOTTOM)

    found = _buckets(points)
    line = " ".join(f"{across(x):.0f},{at(mean):.1f}" for x, _, mean, _ in found)
    band = ""
    if any(most > least for _, least, _, most in found):
        above = [f"{across(x):.0f},{at(most):.0f}" for x, _, _, most in found]
        below = [f"{across(x):.0f},{at(least):.0f}" for x, least, _, _ in reversed(found)]
        band = f'<polygon points="{" ".join(above + below)}" fill="{color}" fill-opacity="0.25"/>'
    dots = "".join(
        f'<circle cx="{across(x):.0f}" cy="{at(mean):.1f}" r="2.5" fill="{color}"/>' for x, _, mean, _ in found
    )
    few = len(found) <= 30  # single values, such as one for each epoch, are seen as such
    return f'{band}<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>{dots if few else ""}'


def _axes(across: Scale, up: Scale, x_label: str, y_label: str) -> str:
    lines = "".join(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(tick):.1f}" y2="{up(tick):.1f}" stroke="currentColor" '
        f'stroke-opacity="0.15"/><text x="{LEFT - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{number(tick)}</text>'
        for tick in up.ticks()
    )
    low = HEIGHT - BOTTOM + 14
    below = "".join(
        f'<text x="{across(tick):.1f}" y="{low}" text-anchor="middle">{number(tick)}</text>' for tick in across.ticks(6)
    )
    names = (
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 3}" text-anchor="end">{cut(x_label)}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 3}">{cut(y_label)}</text>'
    )
    return lines + below + names


def _legend(names: Iterable[str]) -> str:
    shown = "".join(
        f'<span style="margin-right: 1em"><span style="color: {COLORS[place % len(COLORS)]}">\N{BLACK CIRCLE}</span> '
        f"{cut(name)}</span>"
        for place, name in enumerate(names)
    )
    return f"<div><small>{shown}</small></div>"


def _sheet(height: float, words: str, inside: str, width: float = WIDTH) -> str:
    style = f"display: block; width: 100%; max-width: {width:.0f}px; font: 11px sans-serif"
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" style="{style}" fill="currentColor" role="img" '
        f'aria-label="{cut(words, 200)}">{inside}</svg>'
    )

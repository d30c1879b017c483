"""Receptive windows: the intervals of the input that each position of a tensor depends on, and their unions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor


@dataclass(frozen=True)
class Window:
    """The receptive window along one axis of the input of the positions along ``axis`` of a tensor.

    Position i depends on ``low + step * i`` to ``high + step * i``, as far as that lies within ``floor`` and
    ``ceiling``, beyond which there is padding or what no operation has read; without an axis, all positions depend on
    the same. It is the smallest such interval where it is ``exact``, else a larger one. (Where a dilated kernel reaches
    over a border, an exact one may be larger, too: by less than the dilation, since the first position beyond the
    border need not be one that the kernel reads.)
    """

    axis: int | None
    step: Fraction
    low: Fraction
    high: Fraction
    floor: Fraction
    ceiling: Fraction
    exact: bool = True

    @property
    def size(self) -> int:
        """The number of input positions that a single position depends on at most, also beyond the borders."""
        return int(self.high - self.low) + 1

    def at(self, position: int) -> tuple[int, int]:
        """The first and the last input position that this position would depend on without borders."""
        return ceil(self.low + self.step * position), floor(self.high + self.step * position)

    def reached(self, position: int) -> tuple[int, int]:
        """The first and the last input position that this position depends on."""
        first, last = self.at(position)
        return max(first, ceil(self.floor)), min(last, floor(self.ceiling))

    def spread(self, shape: Sequence[int]) -> Window:
        """The window of all positions of its axis together."""
        if self.axis is None:
            return self
        return replace(self, axis=None, step=Fraction(0), high=self.high + self.step * (shape[self.axis] - 1))

    def bounded(self, shape: Sequence[int]) -> Window:
        """The window for an operation that would also read beyond the ends of a tensor of this shape."""
        all_of_it = self.spread(shape)
        return replace(self, floor=max(self.floor, all_of_it.low), ceiling=min(self.ceiling, all_of_it.high))

    def slid(self, step: Fraction | int, first: Fraction | int, last: Fraction | int, exact: bool = True) -> Window:
        """The window of an operation whose position i reads positions ``step * i + first`` to ``step * i + last``."""
        low, high = self.low + self.step * first, self.high + self.step * last
        return replace(self, step=self.step * step, low=low, high=high, exact=self.exact and exact)


Footprint = tuple[Window, ...]
"""A receptive field: a window for each axis of the input."""


def spread(footprint: Footprint, shape: Sequence[int]) -> Footprint:
    return tuple(window.spread(shape) for window in footprint)


def vague(footprint: Footprint) -> Footprint:
    return tuple(replace(window, exact=False) for window in footprint)


def joined(footprints: Sequence[Footprint]) -> Footprint:
    """The union of footprints, of which at least the first one's windows are along the axes of the result."""
    return tuple(_union(windows) for windows in zip(*footprints, strict=True))


def _union(windows: Sequence[Window]) -> Window:
    """The union of windows along the same axis with the same step.

    It is exact if on either side one of them goes farthest both without and with the borders.
    """
    low, high = min(window.low for window in windows), max(window.high for window in windows)
    lowest, highest = min(window.floor for window in windows), max(window.ceiling for window in windows)
    exact = (
        all(window.exact for window in windows)
        and any((window.low, window.floor) == (low, lowest) for window in windows)
        and any((window.high, window.ceiling) == (high, highest) for window in windows)
    )
    return replace(windows[0], low=low, high=high, floor=lowest, ceiling=highest, exact=exact)


def together(given: Iterable[tuple[Sequence[int], Footprint]]) -> Footprint:
    """The union of footprints of tensors of these shapes; what differs in axis or step is spread first."""
    columns: list[list[Window]] = []
    shapes, footprints = zip(*given, strict=True)
    for windows in zip(*footprints, strict=True):
        if len({(window.axis, window.step) for window in windows}) > 1:
            spread = [window.spread(shape) for window, shape in zip(windows, shapes, strict=True)]
            union = _union(spread)
            # All depend on the same only if one of them did so at every position already.
            whole = any(w.axis is None and (w.low, w.high) == (union.low, union.high) for w in windows)
            columns.append([replace(union, exact=union.exact and whole)])
        else:
            columns.append(list(windows))
    return tuple(_union(column) for column in columns)


def renumbered(footprint: Footprint, shape: Sequence[int], new: Mapping[int, int]) -> Footprint:
    """The windows along ``new`` axes; those whose axis has no new one are spread."""
    return tuple(
        window if window.axis is None
        else replace(window, axis=new[window.axis]) if window.axis in new
        else window.spread(shape)
        for window in footprint
    )  # fmt: skip

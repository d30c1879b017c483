"""What the places of a tensor see of the input: intervals that move along with the place, and their unions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor


@dataclass(frozen=True)
class Window:
    """What the places along ``axis`` of a tensor see of one axis of the input; without an axis, all see the same.

    Place i sees ``low + step * i`` to ``high + step * i``, as far as that lies within ``floor`` and ``ceiling``, beyond
    which there is padding or what no operation has read. It is the smallest interval that holds all that is seen where
    it is ``exact``, else a larger one. (Where a dilated kernel reaches over a border, an exact one may be larger, too:
    by less than the dilation, since the first place beyond the border need not be one that the kernel reads.)
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
        """How many places of the input a single place sees at most, also beyond the borders."""
        return int(self.high - self.low) + 1

    def at(self, place: int) -> tuple[int, int]:
        """The first and the last place of the input that this place would see if there were no borders."""
        return ceil(self.low + self.step * place), floor(self.high + self.step * place)

    def reached(self, place: int) -> tuple[int, int]:
        """The first and the last place of the input that this place sees."""
        first, last = self.at(place)
        return max(first, ceil(self.floor)), min(last, floor(self.ceiling))

    def spread(self, shape: Sequence[int]) -> Window:
        """What all places of its axis see together."""
        if self.axis is None:
            return self
        return replace(self, axis=None, step=Fraction(0), high=self.high + self.step * (shape[self.axis] - 1))

    def bounded(self, shape: Sequence[int]) -> Window:
        """The window for an operation that would also read beyond the ends of a tensor of this shape."""
        all_of_it = self.spread(shape)
        return replace(self, floor=max(self.floor, all_of_it.low), ceiling=min(self.ceiling, all_of_it.high))

    def slid(self, step: Fraction | int, first: Fraction | int, last: Fraction | int, exact: bool = True) -> Window:
        """The window of an operation whose place i reads the places ``step * i + first`` to ``step * i + last``."""
        low, high = self.low + self.step * first, self.high + self.step * last
        return replace(self, step=self.step * step, low=low, high=high, exact=self.exact and exact)


Footprint = tuple[Window, ...]
"""A window for each axis of the input."""


def spread(footprint: Footprint, shape: Sequence[int]) -> Footprint:
    return tuple(window.spread(shape) for window in footprint)


def vague(footprint: Footprint) -> Footprint:
    return tuple(replace(window, exact=False) for window in footprint)


def joined(footprints: Sequence[Footprint]) -> Footprint:
    """What several tensors see together, of which at least the first one's windows are along the axes of the result."""
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
            # All see the same only if one of them saw all of it at every place already.
            whole = any(w.axis is None and (w.low, w.high) == (union.low, union.high) for w in windows)
            columns.append([replace(union, exact=union.exact and whole)])
        else:
            columns.append(list(windows))
    return tuple(_union(column) for column in columns)


def renumbered(footprint: Footprint, shape: Sequence[int], place: Mapping[int, int]) -> Footprint:
    """Windows along other axes; those whose axis has no new place are spread."""
    return tuple(
        window if window.axis is None
        else replace(window, axis=place[window.axis]) if window.axis in place
        else window.spread(shape)
        for window in footprint
    )  # fmt: skip

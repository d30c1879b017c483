"""Thresholds of the doctor: read from ``thresholds.json``, which a calibration on healthy trainings writes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

FACTOR = 3.0
"""How far outside what healthy trainings have shown a threshold lies."""


@dataclass(frozen=True)
class Limit:
    """The range of a statistic in healthy trainings, and the thresholds that lie outside of it.

    A threshold of a positive quantity is ``FACTOR`` times outside; one of a share (from 0 to 1) leaves a third of the
    way to the end of its range.

    >>> Limit(0.1, 2.0).low, Limit(0.1, 2.0).high
    (0.03333333333333333, 6.0)
    >>> round(Limit(0.3, 0.7, share=True).high, 3)
    0.9
    """

    healthy_low: float
    healthy_high: float
    share: bool = False

    @property
    def low(self) -> float:
        return self.healthy_low / FACTOR

    @property
    def high(self) -> float:
        return 1 - (1 - self.healthy_high) / FACTOR if self.share else self.healthy_high * FACTOR

    def margin(self, value: float) -> float:
        """How far a value lies beyond the nearer threshold, as a factor; below 1 it is within."""
        if not math.isfinite(value):
            return math.inf
        if self.share and self.high < 1:
            return (1 - self.high) / max(1 - value, 1e-12)
        above = value / self.high if self.high > 0 else 0.0
        below = self.low / value if value > 0 else (math.inf if self.low > 0 else 0.0)
        return max(above, below)


@cache
def table() -> dict[str, dict[str, Any]]:
    """All statistics of all checks, as the calibration has written them."""
    found: dict[str, dict[str, Any]] = json.loads(files("deepcanon.diagnosis").joinpath("thresholds.json").read_text())
    return found


def of(check: str, statistic: str) -> Limit:
    """The limit of a statistic that a check measures."""
    entry = table()[check][statistic]
    low, high = entry["healthy"]
    return Limit(low, high, entry.get("share", False))


def typical(check: str, statistic: str) -> float:
    """The median of a statistic over healthy trainings."""
    entry = table()[check][statistic]
    return float(entry["quantiles"]["0.5"]) if "quantiles" in entry else sum(entry["healthy"]) / 2


def described(check: str) -> str:
    """The calibrated statistics of a check, a line each: the healthy range, where it was seen, the thresholds."""
    lines = []
    for name, entry in table().get(check, {}).items():
        limit = of(check, name)
        seen = f" ({entry['lowest']}; {entry['highest']})" if "lowest" in entry else ""
        runs = f" of {entry['runs']} healthy trainings" if "runs" in entry else f", {entry['source']}"
        ends = f"thresholds {limit.low:.3g} and {limit.high:.3g}"
        lines.append(f"{name}: {limit.healthy_low:.3g} to {limit.healthy_high:.3g}{runs}{seen}; {ends}")
    return "\n".join(lines)

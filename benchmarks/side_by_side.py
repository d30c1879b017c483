"""Functions timed side by side in one process: A B A B, so that all see the same machine; ratios are of neighbors."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Times = dict[str, list[float]]


def interleaved(
    candidates: Mapping[str, Callable[[], object]],
    rounds: int,
    warm_up: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> Times:
    """Seconds of every run of each candidate, in turns, the order reversed from round to round."""
    times: Times = {name: [] for name in candidates}
    for number in range(warm_up + rounds):
        for name in candidates if number % 2 == 0 else reversed(list(candidates)):
            begun = clock()
            candidates[name]()
            if number >= warm_up:
                times[name].append(clock() - begun)
    return times


def quartiles(slow: Sequence[float], fast: Sequence[float]) -> tuple[float, float, float]:
    """How many times faster ``fast`` is, over pairs of neighbors: the lower quartile, the median, the upper one."""
    ratios = [a / b for a, b in zip(slow, fast, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else 3 * ratios
    return low, middle, high


def table(title: str, times: Times, ours: str) -> dict[str, dict[str, float]]:
    """Print the median of each candidate and how many times faster ours is, by pairs of neighbors; return both."""
    print(title)
    numbers = {}
    for name, seconds in times.items():
        low, factor, high = quartiles(seconds, times[ours])
        numbers[name] = {"milliseconds": round(1e3 * statistics.median(seconds), 3), "ours_faster_by": round(factor, 3)}
        spread = "" if name == ours else f" (quartiles {low:.2f} and {high:.2f})"
        print(f"  {name:32} {numbers[name]['milliseconds']:10.2f} ms   {ours} is faster by {factor:.2f}x{spread}")
    return numbers

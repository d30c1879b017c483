"""The check of a gradient (delta) by finite differences of one operation, run again alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deepcanon.core.plural import counted

Array = NDArray[Any]
Status = Literal["agrees", "kink", "mismatch", "cut", "constant", "unchecked"]

STEPS = (1e-5, 1e-6, 1e-4, 1e-3)
"""The steps of the differences, relative to the size of the input; the first that agrees settles it. The first two, in
this order, distinguish a corner from a curve."""
DIRECTIONS = 2
CORNERS = 8
"""The number of entries at a corner that are set aside before a line that still disagrees counts as corners only."""


@dataclass(frozen=True)
class Verdict:
    """The result of the finite-difference check of a delta.

    ``agrees``: they are equal. ``kink``: the operation has a corner here (the maximum of two equal numbers), and the
    delta lies between the slopes on either side. ``mismatch``: the delta is not the derivative. ``cut``: the value
    goes on, but no gradient comes back (``detach``). ``constant``: nothing here depends on anything that gets a
    gradient. ``unchecked``: the operation cannot be run again alone.

    ``given`` is the slope by the delta and ``measured`` the slope by differences, both where they are furthest apart,
    and ``gap`` is how far, relative to their size.
    """

    status: Status
    detail: str = ""
    given: float = 0.0
    measured: float = 0.0
    gap: float = 0.0


@dataclass(frozen=True)
class Probe:
    """The slopes along one direction: by the delta, and measured to either side."""

    given: float
    left: float
    right: float
    slack: float
    corner: bool = False

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2

    @property
    def gap(self) -> float:
        size = max(abs(self.given), abs(self.middle), 1e-300)
        return abs(self.given - self.middle) / size

    @property
    def agrees(self) -> bool:
        return abs(self.given - self.middle) <= self.slack

    @property
    def bends(self) -> bool:
        """Whether there is a corner, and the delta lies between the slopes on its two sides."""
        low, high = sorted((self.left, self.right))
        return self.corner and low - self.slack <= self.given <= high + self.slack


def judge(height: Callable[[Array], float], x: Array, delta: Array, size: float, precision: float) -> Verdict:
    """Compare ``delta`` with finite differences of ``height``, a function of ``x``, at its value.

    Random directions check all entries at once; where one disagrees, bisection finds the entry at fault. ``size`` is
    that of the numbers that are added up in ``height``, and ``precision`` the machine epsilon.

    >>> x = np.array([1.0, 2.0])
    >>> judge(lambda x: float((x**2).sum()), x, 2 * x, 4.0, 2.2e-16).status
    'agrees'
    >>> judge(lambda x: float((x**2).sum()), x, 3 * x, 4.0, 2.2e-16).status
    'mismatch'
    >>> judge(lambda x: float(np.exp(x).sum()), np.array([1.0, -np.inf]), np.array([np.e, 0.0]), 3.0, 2.2e-16).status
    'agrees'
    >>> judge(lambda x: float(np.maximum(x, 0).sum()), np.zeros(2), np.zeros(2), 1.0, 2.2e-16).status
    'kink'
    """
    if not x.size:
        return Verdict("agrees", "there are no entries")
    random = np.random.default_rng(0)
    lines = [_noise(random, x) for _ in range(DIRECTIONS)] + [_unit(x, entry) for entry in _largest(delta)]
    lines = [np.where(np.isfinite(x), line, 0) for line in lines]  # a score that is masked, -inf, cannot be moved

    def slopes(line: Array) -> Probe:
        return _probe(height, x, delta, line, size, precision)

    probes = {number: slopes(line) for number, line in enumerate(lines)}
    failed = {number: probe for number, probe in probes.items() if not probe.agrees}
    if not failed:
        worst = max(probes.values(), key=lambda probe: probe.gap * abs(probe.given))
        return Verdict("agrees", f"along {counted(len(lines), 'direction')}", worst.given, worst.middle, worst.gap)
    corner: Probe | None = None
    for number in failed:
        line = lines[number].copy()
        for _ in range(CORNERS):
            entry = _narrowed(slopes, line)
            probe = slopes(_unit(x, entry))
            if not probe.agrees and not probe.bends:
                place = f"at entry {list(map(int, np.unravel_index(entry, x.shape)))}" if x.ndim else ""
                return Verdict("mismatch", place, probe.given, probe.middle, probe.gap)
            if probe.bends:
                corner = probe
            line.reshape(-1)[entry] = 0  # a corner, or not at fault alone: check the others
            if slopes(line).agrees:
                break
    if corner is not None:
        sides = f"the slope is {corner.left:.4g} on the left and {corner.right:.4g} on the right"
        return Verdict("kink", sides, corner.given, corner.middle, corner.gap)
    worst = max(failed.values(), key=lambda probe: probe.gap)
    return Verdict("kink" if worst.bends else "mismatch", "along a random line", worst.given, worst.middle, worst.gap)


def _narrowed(slopes: Callable[[Array], Probe], line: Array) -> int:
    """The entry of the line with the largest disagreement, found by bisection."""
    support = np.flatnonzero(line)
    while len(support) > 1:
        parts = np.array_split(support, 2)
        gaps = []
        for part in parts:
            half = np.zeros(line.shape, line.dtype)
            half.reshape(-1)[part] = line.reshape(-1)[part]
            probe = slopes(half)
            gaps.append(abs(probe.given - probe.middle) - probe.slack)
        support = parts[int(np.argmax(gaps))]
    return int(support[0]) if len(support) else 0


def _probe(
    height: Callable[[Array], float], x: Array, delta: Array, line: Array, size: float, precision: float
) -> Probe:
    """The slopes along ``line``, by the first step that agrees with the delta, or else by the finest."""
    given = inner(delta, line)
    reach = typical(x) or 1.0
    here = height(x)
    probes = []
    for relative in STEPS:
        step = reach * relative * coarseness(precision)
        after, before = height(moved(x, step, line)), height(moved(x, -step, line))
        left, right = (here - before) / step, (after - here) / step
        rounding = 8 * precision * max(size, abs(here)) / step
        slack = 1e-5 * coarseness(precision) * max(abs(given), abs(left + right) / 2) + rounding
        probes.append(Probe(given, left, right, slack))
        if probes[-1].agrees:
            return probes[-1]
    coarse, fine = probes[:2]
    # where the function only curves, the two sides come together as the step shrinks; at a corner they do not
    apart = abs(fine.right - fine.left)
    return replace(fine, corner=apart > fine.slack and apart > 0.3 * abs(coarse.right - coarse.left))


def inner(a: Array, b: Array) -> float:
    """The inner product; of complex numbers, that of vectors in the plane."""
    return float(np.sum(np.conj(a) * b).real)


def moved(x: Array, step: float, line: Array) -> Array:
    """``x`` moved a step along a line, in the same order in memory, since a dropout mask is drawn by that order."""
    there = x.copy(order="K")
    there += (step * line).astype(x.dtype)
    return there


def typical(x: Array) -> float:
    """The root mean square of the finite entries; 0 where there are none."""
    finite = x[np.isfinite(x)]
    return float(np.sqrt(np.mean(np.abs(finite) ** 2))) if finite.size else 0.0


def coarseness(precision: float) -> float:
    """The factor on steps and tolerances compared with double precision: 1 there, about 3,000 in single."""
    return float((precision / np.finfo(np.float64).eps) ** 0.4)


def _noise(random: np.random.Generator, x: Array) -> Array:
    noise = random.standard_normal(x.shape)
    return noise + 1j * random.standard_normal(x.shape) if np.iscomplexobj(x) else np.asarray(noise)


def _unit(x: Array, entry: int) -> Array:
    line = np.zeros(x.shape, x.dtype)
    line.reshape(-1)[entry] = 1
    return line


def _largest(delta: Array) -> list[int]:
    """The entries with the largest and the smallest delta, whose slopes are also measured one by one."""
    size = np.abs(delta).reshape(-1)
    return list(dict.fromkeys([int(size.argmax()), int(size.argmin())]))

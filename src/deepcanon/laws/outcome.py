"""What a law found, and the frame in which every law runs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Finding:
    """Whether a law holds: it does where what was ``measured`` is at most the ``bound``.

    >>> Finding.of("rows sum to one", 0.5, 1e-6, "the sum of row 3 is 1.5").holds
    False
    """

    law: str
    holds: bool
    measured: float
    bound: float
    detail: str

    @classmethod
    def of(cls, law: str, measured: float, bound: float, detail: str) -> Finding:
        return cls(law, bool(measured <= bound), float(measured), float(bound), detail)


Measured = tuple[float, float, str]
"""What was measured, the bound it must keep, and a sentence that says what was compared."""

Law = Callable[[Any, Any], Finding | None]
"""A law asks a module about a batch; it answers None where it does not apply."""


def law(measure: Callable[[Any, Any], Measured | None]) -> Law:
    """Make a law out of a measurement: the law is called as its function is.

    The measurement gets a copy of the module and random numbers of its own, so that nothing that is looked at is
    changed; an error inside it is a finding too.
    """
    name = measure.__name__.replace("_", " ")

    @functools.wraps(measure)
    def lawful(module: Any, batch: Any) -> Finding | None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                measured = measure(copy.deepcopy(module), batch)
            except Exception as error:
                words = str(error).strip().splitlines() or ["no message"]
                return Finding.of(name, 1, 0, f"it raised {type(error).__name__}: {words[0]}")
        return None if measured is None else Finding.of(name, *measured)

    return lawful


def findings(laws: Iterable[Law], module: Any, batch: Any) -> list[Finding]:
    """What those laws find that apply."""
    found = [check(module, batch) for check in laws]
    return [finding for finding in found if finding is not None]


def violations(faults: Sequence[str], healthy: str) -> Measured:
    """A measurement that counts faults, of which there may be none."""
    return len(faults), 0, "; ".join(faults) if faults else healthy


def report(found: Sequence[Finding]) -> str:
    """The findings as lines of text, what fails first.

    >>> print(report([Finding.of("terms are finite", 0, 0, "1 term")]))
    holds  terms are finite  (measured 0, bound 0): 1 term
    1 law holds, 0 fail
    """
    lines = [
        f"{'holds' if finding.holds else 'FAILS'}  {finding.law}  "
        f"(measured {finding.measured:.3g}, bound {finding.bound:.3g}): {finding.detail}"
        for finding in sorted(found, key=lambda finding: finding.holds)
    ]
    held = sum(finding.holds for finding in found)
    lines.append(f"{held} law{'s hold' if held != 1 else ' holds'}, {len(found) - held} fail")
    return "\n".join(lines)

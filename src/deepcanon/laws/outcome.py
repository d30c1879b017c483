"""The outcome of a law, and the decorator that makes a law out of a measurement."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from deepcanon.core.display import in_few_words, notebook, table


@dataclass(frozen=True)
class Outcome:
    """The outcome of one law: it holds where the number ``measured`` is at most the ``bound``.

    >>> Outcome.of("rows sum to one", 0.5, 1e-6, "the sum of row 3 is 1.5").holds
    False
    """

    law: str
    holds: bool
    measured: float
    bound: float
    detail: str

    @classmethod
    def of(cls, law: str, measured: float, bound: float, detail: str) -> Outcome:
        return cls(law, bool(measured <= bound), float(measured), float(bound), detail)


class Outcomes(list[Outcome]):
    """The outcomes of a check: on one line how many laws hold and which fail, in a notebook a table of all."""

    def __repr__(self) -> str:
        failing = [outcome.law for outcome in self if not outcome.holds]
        fail = f"{len(failing)} fail{f': {in_few_words(failing)}' if failing else ''}"
        return f"Outcomes({len(self) - len(failing)} of {len(self)} laws hold, {fail})"

    def _repr_html_(self) -> str:
        rows = [
            ["holds" if outcome.holds else "FAILS", outcome.law, outcome.measured, outcome.bound, outcome.detail]
            for outcome in sorted(self, key=lambda outcome: outcome.holds)
        ]
        return notebook(repr(self), table(["", "law", "measured", "bound", "what was compared"], rows))


Measured = tuple[float, float, str]
"""What was measured, the bound it must keep, and a sentence that says what was compared."""

Law = Callable[[Any, Any], Outcome | None]
"""A function of a module and a batch that returns an outcome, or None where the law does not apply."""


def law(measure: Callable[[Any, Any], Measured | None]) -> Law:
    """Make a law out of a measurement: the law is called as its function is.

    The measurement gets a copy of the module and random numbers of its own, so that the module and the global
    generator stay as they are; an error inside it is an outcome that fails.
    """
    name = measure.__name__.replace("_", " ")

    @functools.wraps(measure)
    def lawful(module: Any, batch: Any) -> Outcome | None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                measured = measure(copy.deepcopy(module), batch)
            except Exception as error:
                words = str(error).strip().splitlines() or ["no message"]
                return Outcome.of(name, 1, 0, f"it raised {type(error).__name__}: {words[0]}")
        return None if measured is None else Outcome.of(name, *measured)

    return lawful


def outcomes(laws: Iterable[Law], module: Any, batch: Any) -> list[Outcome]:
    """The outcomes of the laws that apply."""
    found = [check(module, batch) for check in laws]
    return [outcome for outcome in found if outcome is not None]


def violations(faults: Sequence[str], healthy: str) -> Measured:
    """The measurement that counts faults; the bound is zero."""
    return len(faults), 0, "; ".join(faults) if faults else healthy


def report(found: Sequence[Outcome]) -> str:
    """The outcomes as lines of text, the laws that fail first.

    >>> print(report([Outcome.of("terms are finite", 0, 0, "1 term")]))
    holds  terms are finite  (measured 0, bound 0): 1 term
    1 law holds, 0 fail
    """
    lines = [
        f"{'holds' if outcome.holds else 'FAILS'}  {outcome.law}  "
        f"(measured {outcome.measured:.3g}, bound {outcome.bound:.3g}): {outcome.detail}"
        for outcome in sorted(found, key=lambda outcome: outcome.holds)
    ]
    held = sum(outcome.holds for outcome in found)
    lines.append(f"{held} law{'s hold' if held != 1 else ' holds'}, {len(found) - held} fail")
    return "\n".join(lines)

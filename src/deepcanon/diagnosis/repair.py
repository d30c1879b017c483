"""Repair and compare: a cause is named only if a copy without it does clearly better, over two seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deepcanon.diagnosis.patient import Patient
from deepcanon.diagnosis.trial import Change, Course

FURTHER = 2.0
"""A repaired copy gains clearly if what is left of its loss, above the lowest that is known, is so many times less."""

STUCK = 0.02
"""A loss within this share of the best constant answer's is stuck."""

FAR = 0.1
"""A loss that falls by so much of the constant answer's, where it was stuck, has left chance behind."""

LITTLE = 0.5
"""A training that leaves more of the constant answer's loss has learned little."""

POINTS = 120
"""A curve in the evidence has no more points."""


@dataclass(frozen=True)
class Compared:
    """Courses without and with a change, seed by seed."""

    change: Change
    before: tuple[Course, ...]
    after: tuple[Course, ...]
    floor: float
    """The lowest loss that is known to be possible: 0 of cross-entropies and squared errors."""
    unit: float = 1.0
    """What a loss with the change is multiplied by to be comparable with one without."""

    @property
    def gains(self) -> bool:
        """Whether the changed copy does clearly better for every seed."""
        return len(self.before) > 0 and all(gain >= FURTHER for gain in self.ratios)

    @property
    def ratios(self) -> list[float]:
        """For each seed, how many times less is left of the loss with the change."""
        found = []
        for one, other in zip(self.before, self.after, strict=True):
            if self.floor < 0:  # a loss without a lowest value: what was learned counts, not what is left
                found.append(_ratio(other.progress * self.unit, max(0.0, one.progress)) if other.finite else 0.0)
                continue
            left, right = one.last - self.floor, other.last * self.unit - self.floor
            found.append(_ratio(left, right))
        return found

    def evidence(self) -> dict[str, object]:
        """The curves and their ends, for the report."""
        return {
            "loss_as_it_is": round(self.before[0].last, 5),
            "loss_with_repair": round(self.after[0].last * self.unit, 5),
            "curves": {
                "as it is": thinned(self.before[0].losses),
                self.change.words: thinned([loss * self.unit for loss in self.after[0].losses]),
            },
            "figure": "curves",
        }


def _ratio(left: float, right: float) -> float:
    if not math.isfinite(right):
        return 0.0
    if not math.isfinite(left):
        return math.inf
    if right <= 0:
        return math.inf if left > 1e-9 else 1.0
    return max(left, 0.0) / right


def compare(
    patient: Patient,
    change: Change,
    *,
    steps: int | None = None,
    seeds: Sequence[int] = (0, 1),
    unit: float = 1.0,
    by: Patient | None = None,
) -> Compared:
    """Train copies with a change, and others without, for as many steps, by the same seeds.

    The second seed is tried only if the first gains. Where the change makes a loss one of other units, ``unit`` is what
    it is multiplied by. ``by`` is another patient in which the change is made already.
    """
    before, after = [], []
    floor = 0.0
    for seed in seeds:
        plain = patient.reference if seed == 0 and steps is None else patient.train(steps, seed=seed)
        if seed == 1 and steps is None:
            plain = patient.second_reference
        before.append(plain)
        after.append((by or patient).train(plain.asked, seed=seed, change=change))
        lowest = min(*(course.last for course in before), *(course.last * unit for course in after))
        floor = min(0.0, lowest if math.isfinite(lowest) else 0.0)
        here = Compared(change, tuple(before[-1:]), tuple(after[-1:]), floor, unit)
        if not here.gains and not after[-1].last * unit < before[-1].last:
            break
    return Compared(change, tuple(before), tuple(after), floor, unit)


def is_stuck(patient: Patient, course: Course) -> bool:
    """Whether a course ends no better than the best constant answer; where that is not known, than without learning."""
    if not course.finite:
        return True
    if patient.is_game:
        return False  # what one player wins the other loses
    if patient.baseline is not None and patient.baseline > 0:
        return course.last > (1 - STUCK) * patient.baseline
    still = patient.still.last
    return not still - course.last > STUCK * abs(still)


def ails(patient: Patient) -> bool:
    """Whether the training as it is does not learn: it diverges, or ends no better than it might without learning."""
    return is_stuck(patient, patient.reference)


def learns_little(patient: Patient) -> bool:
    """Whether more than half of the constant answer's loss is left, or nothing is learned at all."""
    weak = patient.baseline is not None and patient.reference.last > LITTLE * patient.baseline
    return weak or ails(patient)


def helps(patient: Patient, found: Compared) -> bool:
    """Whether a change makes a training that does not learn one that does: half of the loss is left, or it leaves
    the constant answer behind by far."""
    if found.gains and len(found.before) == 2:
        return True
    if len(found.before) < 2 or not all(is_stuck(patient, course) for course in found.before):
        return False
    if patient.baseline is not None and patient.baseline > 0:
        return all(after.last * found.unit < (1 - FAR) * patient.baseline for after in found.after)
    return all(
        after.finite and before.last - after.last * found.unit > FAR * abs(before.first)
        for before, after in zip(found.before, found.after, strict=True)
    )


def thinned(losses: Sequence[float], points: int = POINTS) -> list[float]:
    """A curve of at most so many points."""
    every = max(1, math.ceil(len(losses) / points))
    return [round(float(loss), 6) for loss in losses[::every]]

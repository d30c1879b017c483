"""Learning rate: it is neither so high that the loss explodes or is stuck, nor so low that nothing moves.

Measured: the training as it is, next to copies with other rates, by powers of ten. Too high is named where it diverges,
rises or is stuck and a copy with a lower rate gains, for two seeds; and where a step moves the weights by three times
the most of healthy trainings, the loss rises at some step to half as much again as it is without learning, and with a
lower rate it does not and ends lower, for two seeds, which twenty steps show. Too low is named where a step moves the
weights by less than a third of the least of healthy trainings (the median over matrices of |update| / |weights|) and
the loss falls by less than 2 % of what it does at a higher rate. The range test (Smith, 2017,
https://arxiv.org/abs/1506.01186) gives the interval that is suggested and the rate at which the loss explodes to three
times its first value. Losses that do not measure fit (games) are not examined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.rates import factors_of_healthy_steps, range_test, update_ratio
from deepcanon.diagnosis.repair import STUCK, Compared, ails, compare, helps, is_stuck
from deepcanon.diagnosis.repairs import times
from deepcanon.diagnosis.trial import Course

STAGE, PLACE = "optimizer", 30

LOWER = (0.1, 0.01, 1e-3, 1e-4)
HIGHER = (10.0, 100.0, 1e3, 1e4, 1e6)
ROSE = 1.5
"""A loss that is at some step so many times what it is without learning has risen."""
LITTLE = 0.02
"""Progress below this share of that at a higher rate is too little."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if (patient.by_turns and patient.without_fit) or (patient.is_game and patient.reference.finite):
        raise Skip("the loss does not measure fit")
    if patient.in_stages:
        raise Skip("it is trained in turns one after the other, whose losses are not comparable")
    course = patient.reference
    if not course.losses:
        raise Skip("the loss of a step is not known")
    update = update_ratio(patient)
    patient.note(rate=patient.rate, update=update, first=course.first, last=course.last)
    if ails(patient) or _leaps(patient, course, update):
        yield from _too_high(patient, update)
    if course.finite:
        yield from _too_low(patient, course, update)


def _rises(patient: Patient, course: Course) -> bool:
    """Whether the loss is at some step far above what it is without learning."""
    return max(course.losses) > ROSE * max(patient.still.losses)


def _leaps(patient: Patient, course: Course, update: float | None) -> bool:
    """Whether steps are larger than any healthy ones, and the loss rises by them."""
    if update is None or update <= thresholds.of("learning_rate", "update").high:
        return False
    return max(patient.still.losses) > 0 and _rises(patient, course)


def _calms(patient: Patient, found: Compared) -> bool:
    """Whether a change keeps a loss from rising, and it ends lower, for two seeds."""
    if len(found.before) < 2 or not all(_leaps(patient, course, math.inf) for course in found.before):
        return False
    clearly = STUCK * abs(patient.still.last)
    pairs = zip(found.before, found.after, strict=True)
    return all(after.last < before.last - clearly and not _rises(patient, after) for before, after in pairs)


def _too_high(patient: Patient, update: float | None) -> Iterator[Diagnosis]:
    limit = thresholds.of("learning_rate", "update")
    if update is not None and update < limit.healthy_low:
        return  # steps are small already
    ends: list[tuple[float, float]] = []
    for factor in LOWER:
        ends.append((patient.train(change=times(factor)).last, factor))
        if len(ends) > 1 and ends[-1][0] > ends[-2][0] < patient.reference.last:
            break  # it does worse again
    best = compare(patient, times(min(ends)[1]))
    if not helps(patient, best) and not _calms(patient, best):
        return
    tested = range_test(patient, patient.rate * best.change.rate)
    explodes = tested["explodes_at"]
    yield Diagnosis(
        cause="learning rate too high",
        evidence={
            "rate": patient.rate,
            "update_by_weight": update if update is not None else math.nan,
            "explodes_at": explodes if explodes is not None else "not within the range",
            **best.evidence(),
            "range": tested,
        },
        advice=f"lower it: {patient.rate * best.change.rate:.2g} does well here{_interval(tested)}",
        where="optimizer",
        confirmed_by=f"copies with {best.change.words} gain, for two seeds",
        margin=None if update is None else update / limit.high,
        change=patient.setting(lr=patient.rate * best.change.rate),
    )


def _too_low(patient: Patient, course: Course, update: float | None) -> Iterator[Diagnosis]:
    limit = thresholds.of("learning_rate", "update")
    if update >= limit.low if update is not None else not ails(patient):
        return  # of weights that start at zero no step is small: there the loss must be stuck
    best: Course | None = None
    for factor in (*HIGHER, *factors_of_healthy_steps(patient, HIGHER[-1])):
        if patient.rate == 0:
            break
        trial = patient.train(change=times(factor))
        if trial.finite and (best is None or trial.last < best.last):
            best, chosen = trial, factor
    if best is None:
        if update == 0 and patient.rate == 0:
            yield _low(patient, course, 0.0, math.nan, None, limit)
        return
    still = patient.still.last
    progress = (still - course.last) / (still - best.last) if best.last < still else 1.0
    patient.note(progress=progress)
    if progress < LITTLE and not is_stuck(patient, best):
        yield _low(patient, course, update, progress, (chosen, best), limit)


def _low(
    patient: Patient,
    course: Course,
    update: float | None,
    progress: float,
    best: tuple[float, Course] | None,
    limit: thresholds.Limit,
) -> Diagnosis:
    from deepcanon.diagnosis.repair import thinned

    curves = {"as it is": thinned(course.losses)}
    higher = ""
    if best is not None:
        curves[times(best[0]).words] = thinned(best[1].losses)
        rate = patient.rate * best[0]
        higher = f": {rate:.2g} does well here{_interval(range_test(patient, rate))}"
    return Diagnosis(
        cause="learning rate too low",
        evidence={
            "rate": patient.rate,
            **({} if update is None else {"update_by_weight": update}),
            "share_of_the_progress": progress,
            "curves": curves,
            "figure": "curves",
        },
        advice=f"raise it{higher}",
        where="optimizer",
        confirmed_by="a copy with a higher rate makes fifty times the progress",
        margin=limit.low / update if update else None,
        change={} if best is None else patient.setting(lr=patient.rate * best[0]),
    )


def _interval(tested: Mapping[str, Any]) -> str:
    """What the range test suggests, in words."""
    if tested["suggested"] is None:
        return ""
    low, high = tested["suggested"]
    return f"; the range test suggests {low:.1g} to {high:.1g}"

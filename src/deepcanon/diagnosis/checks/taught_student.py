"""Distillation: the teacher tells examples apart, and the student hears it.

Measured after a trial (or of a run's weights): the information in the teacher's predictions about which example it is,
in nats, its accuracy on training examples compared with that of the most frequent class, and by how much the student's
gradient changes if the teacher's answers go to other examples. A teacher that was never trained, or answers the same to
all, has nothing to say; at an extreme temperature nothing of what it says arrives. The thresholds are three times below
what healthy trainings have; an accuracy within three standard errors of chance counts, too. In a step of one's own the
teacher is what it calls without gradient, gives an answer for each of the model's, and stays as it is.

Papers: Hinton et al., 2015, https://arxiv.org/abs/1503.02531
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from deepcanon.core import Labeled
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ours, trained
from deepcanon.diagnosis.families.own_teacher import own_teacher, taught_by
from deepcanon.diagnosis.families.taught import teacher_of, teaching
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "family", 20

UNHEARD = 1e-3
"""A teacher that changes less of the gradient in a step of one's own, by that of the labels, is not heard."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(512)
    if not isinstance(batch, Labeled) or patient.task != "classes" or batch.y.ndim != 1:
        raise Skip("it has no teacher of classes")
    found = _by_step(patient, batch) if patient.ours is None else _by_method(patient, batch)
    patient.note(**found)
    chance = found["prior"] + 3 * math.sqrt(found["prior"] * (1 - found["prior"]) / len(batch))
    lowest = {name: thresholds.of("taught_student", name).low for name in ("information", "heard")}
    if patient.ours is None:  # whose weight of the teacher is not known
        lowest = {"heard": UNHEARD}
    outside = {name: low / max(found[name], 1e-12) for name, low in lowest.items() if found[name] < low}
    if found["accuracy"] <= chance or outside:
        unheard = "heard" in outside and found["accuracy"] > chance
        yield Diagnosis(
            cause="distillation without signal",
            evidence=found,
            advice="lower the temperature, and keep the factor of its square"
            if unheard
            else "train the teacher first (teaching above 0), or give one that is trained",
            where="student" if unheard else "teacher",
            confirmed_by="exchanged answers of the teacher change nothing for the student"
            if unheard
            else "the teacher is no better than the most frequent class",
            margin=max(outside.values(), default=None),
        )


def _by_method(patient: Patient, batch: Labeled) -> dict[str, float]:
    if teacher_of(ours(patient)) is None:
        raise Skip("it has no teacher of classes")
    return teaching(trained(patient), batch)


def _by_step(patient: Patient, batch: Labeled) -> dict[str, float]:
    """Of a step of the user's own, at its start: a teacher that is fixed has said then what it says."""
    model = patient.twin()
    teacher = own_teacher(patient, model, batch) if patient.step is not None else None
    if teacher is None:
        raise Skip("it has no teacher of classes")
    return taught_by(patient, model, teacher, batch)

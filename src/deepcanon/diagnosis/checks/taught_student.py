"""Distillation: the teacher tells examples apart, and the student hears it.

Measured after a trial (or of a run's weights): the information in the teacher's predictions about which example it is,
in nats, its accuracy on training examples compared with that of the most frequent class, and by how much the student's
gradient changes if the teacher's answers go to other examples. A teacher that was never trained, or answers the same to
all, has nothing to say; at an extreme temperature nothing of what it says arrives. The thresholds are three times below
what healthy trainings have; an accuracy within three standard errors of chance counts, too.

Papers: Hinton et al., 2015, https://arxiv.org/abs/1503.02531
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from deepcanon.core import Labeled
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ours, trained
from deepcanon.diagnosis.families.taught import teacher_of, teaching
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "family", 20


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(512)
    if teacher_of(ours(patient)) is None or not isinstance(batch, Labeled) or patient.task != "classes":
        raise Skip("it has no teacher of classes")
    found = teaching(trained(patient), batch)
    patient.note(**found)
    chance = found["prior"] + 3 * math.sqrt(found["prior"] * (1 - found["prior"]) / len(batch))
    limits = {name: thresholds.of("taught_student", name) for name in ("information", "heard")}
    outside = {name: limit.margin(max(found[name], 1e-12)) for name, limit in limits.items() if found[name] < limit.low}
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

"""Pseudo-labels: the classes predicted for unlabeled examples stay near those of the labels, and help.

Measured after a trial (or of a run's weights): the divergence of the classes of the labels from those predicted for the
unlabeled examples, in nats. Where mistakes are learned as labels, a few classes swallow the others. The threshold is
three times above what healthy trainings have; it is a fault only if a trial on the labels alone, with the same number
of steps, has less drift and is right more often by ten points on held-out labels.

Papers: Arazo et al., 2020, https://arxiv.org/abs/1908.02983; Lee, 2013 (Pseudo-Label); Sohn et al., 2020,
https://arxiv.org/abs/2001.07685
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from deepcanon.core import AnyBatch, Labeled, SemiBatch
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ours, repaired, trained
from deepcanon.diagnosis.families.taught import learns_from_few_labels, pseudo_labels
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "family", 20
GAIN = 0.1
"""The labels alone do better if they are right in so many more of all cases."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    split = patient.train_split
    if not learns_from_few_labels(ours(patient), split) or patient.task != "classes":
        raise Skip("it does not learn from few labels")
    assert isinstance(split, SemiBatch)
    model = trained(patient)
    found = {**pseudo_labels(model, split), **_right(model, patient)}
    patient.note(**found)
    limit = thresholds.of("steady_pseudo_labels", "drift")
    if found["drift"] <= limit.high or not isinstance(getattr(model, "weight", None), float | int):
        return
    alone = repaired(patient, Change("the labels alone", on_model=_labels_alone))
    without = {**pseudo_labels(alone, split), **_right(alone, patient)}
    if without["drift"] < found["drift"] and without["accuracy"] > found["accuracy"] + GAIN:
        yield Diagnosis(
            cause="pseudo-label drift",
            evidence={**found, "drift_without": without["drift"], "accuracy_without": without["accuracy"]},
            advice="let pseudo-labels count later and only where they are confident, or with less weight",
            where="unlabeled examples",
            confirmed_by="the labels alone do better",
            margin=limit.margin(found["drift"]),
        )


def _labels_alone(model: nn.Module) -> None:
    model.weight = 0.0  # type: ignore[assignment]


@torch.no_grad()
def _right(model: Any, patient: Patient) -> dict[str, float]:
    """The accuracy on held-out labels, or on those of the training where there are none."""
    held: AnyBatch = patient.splits.get("valid", patient.splits.get("test", patient.train_split))
    if not isinstance(held, Labeled):
        return {"accuracy": 0.0}
    return {"accuracy": float((model.predict(*held.inputs) == held.y).double().mean())}

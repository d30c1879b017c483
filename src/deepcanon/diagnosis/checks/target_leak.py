"""Leak of the target: no single feature gives the label away.

Measured: for each feature the share of its variance that lies between the classes (eta squared) and the accuracy of the
nearest class mean; of real targets the squared correlation. Alarmed where a feature takes one tight value for each
class (eta squared above 0.95 and accuracy above 0.98; of real targets a correlation that is exact to 1e-4) while no
other feature comes near; a feature that is exactly one value for each class needs no comparison, nor do features of two
values, one for each class, that mark its examples, nor a feature that has one value at every example of a class and at
no other, as a date that is empty unless it has happened. A feature that a threshold divides well is
informative, not a leak: its values scatter within the classes.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.rows import labels_of, real_rows

STAGE, PLACE = "data", 50
STOPS = False

TIGHT, OTHERS, RIGHT, EXACT = 0.95, 0.75, 0.98, 0.9999
MANY = 20
"""In so many examples of a class, and of the others, one value is not equal by accident."""
ROUNDING = 1e-9
"""What float32 may scatter around one value for each class, as a share of the variance."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.train_split.x.ndim != 2:
        raise Skip("the examples are not rows of features")
    rows, y = real_rows(patient), labels_of(patient.train_split)
    if rows.shape[1] < 2 or len(rows) < 50:
        raise Skip("there are too few features or examples")
    if patient.task == "targets":
        scores = _correlations(rows, y.double())
        limit, others = EXACT, 0.9
    else:
        y = torch.unique(y, return_inverse=True)[1]
        if int(y.max()) == 0 or int(y.max()) > 100:
            raise Skip("there is one class, or too many")
        scores = _between(rows, y)
        limit, others = TIGHT, OTHERS
    best = int(scores.argmax())
    rest = scores.clone()
    rest[best] = 0
    patient.note(best_feature=float(scores[best]), next_best=float(rest.max()))
    marks = _marks(rows, y) if patient.task != "targets" and int(y.max()) > 1 else []
    if marks:
        yield Diagnosis(
            cause="label leak",
            evidence={"features": ", ".join(map(str, marks))},
            advice="leave these features out: they are the label, one for each class",
            where=f"features {marks[0]} to {marks[-1]} give the label away",
            confirmed_by="exact: each has one value for the examples of a class, and another for all others",
        )
        return
    given = _given_away(rows, y) if patient.task != "targets" else None
    if given is not None:
        feature, value = given
        yield Diagnosis(
            cause="label leak",
            evidence={"value": value, "examples": int((rows[:, feature] == value).sum())},
            advice="leave this feature out, unless it is known before the label is",
            where=f"feature {feature} gives the label away",
            confirmed_by="exact: all examples of a class have this value, and no other has",
        )
        return
    exact = patient.task != "targets" and float(scores[best]) > 1 - ROUNDING
    if float(scores[best]) <= limit or (float(rest.max()) >= others and not exact):
        return
    if patient.task != "targets" and _accuracy(rows[:, best], y) < RIGHT:
        return
    yield Diagnosis(
        cause="label leak",
        evidence={"explained_by_feature": float(scores[best]), "by_next_best": float(rest.max())},
        advice="leave this feature out, unless it is known before the label is",
        where=f"feature {best} gives the label away",
        confirmed_by="the feature alone predicts the label",
    )


def _marks(rows: Tensor, y: Tensor) -> list[int]:
    """A feature for each class that has one value there and another elsewhere; empty where a class has none."""
    low, high = rows.amin(0), rows.amax(0)
    two = ((rows == low) | (rows == high)).all(0) & (low < high)
    found = []
    for label in range(int(y.max()) + 1):
        inside = (y == label).unsqueeze(1)
        exact = two & (((rows == high) == inside).all(0) | ((rows == low) == inside).all(0))
        if not bool(exact.any()):
            return []
        found.append(int(exact.nonzero()[0]))
    return found


def _given_away(rows: Tensor, y: Tensor) -> tuple[int, float] | None:
    """A feature with a value that all examples of a class have and no other, and many of each; with its value."""
    for label in range(int(y.max()) + 1):
        inside = y == label
        if min(int(inside.sum()), int((~inside).sum())) < MANY:
            continue
        value = rows[inside][0]
        exact = ((rows == value) == inside.unsqueeze(1)).all(0)
        if bool(exact.any()):
            feature = int(exact.nonzero()[0])
            return feature, float(value[feature])
    return None


def _correlations(rows: Tensor, y: Tensor) -> Tensor:
    x, y = rows - rows.mean(0), y - y.mean()
    scale = x.square().sum(0) * y.square().sum()
    return torch.where(scale > 0, (x * y.unsqueeze(1)).sum(0).square() / scale.clamp_min(1e-300), 0.0)


def _means(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    counts = torch.bincount(y).double()
    sums = torch.zeros(len(counts), x.shape[1], dtype=x.dtype).index_add_(0, y, x)
    return sums / counts.unsqueeze(1), counts


def _between(rows: Tensor, y: Tensor) -> Tensor:
    means, counts = _means(rows, y)
    total = (rows - rows.mean(0)).square().sum(0)
    between = (counts.unsqueeze(1) * (means - rows.mean(0)).square()).sum(0)
    return torch.where(total > 0, between / total.clamp_min(1e-300), 0.0)


def _accuracy(feature: Tensor, y: Tensor) -> float:
    means, _ = _means(feature.unsqueeze(1), y)
    return float((torch.cdist(feature.unsqueeze(1), means).argmin(1) == y).double().mean())

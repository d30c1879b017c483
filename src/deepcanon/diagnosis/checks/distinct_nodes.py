"""Nodes of a graph: layers leave them different, and neither features nor splits give their labels away.

Measured: whether a feature is other than usual exactly at the nodes of one class, for every class (exact); whether
nodes are in the masks of two splits (exact); whether classes fit the edges or the features at all, against permuted
classes; and, after a trial (or of a run's weights), the share of the rows of each hidden layer that is not along their
largest singular vector, which repeated averaging leads to. Over-smoothing is named only if that share is a tenth of
what is usual in healthy trainings, is below that of the features, and the training does little better than the most
frequent class. A plain module that takes all rows at once, and no part of them, has nodes, too: it holds their edges.

Papers: Li et al., 2018, https://arxiv.org/abs/1801.07606; Oono and Suzuki, 2020, https://arxiv.org/abs/1905.10947
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import GraphBatch, Labeled
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.anatomy import recorded
from deepcanon.diagnosis.families.after_training import trained
from deepcanon.diagnosis.families.node_spread import (
    label_signal,
    node_spread,
    right_share,
    rows_apart,
    telling_features,
)
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "family", 8
DEVIATIONS, FEWEST = 2.5, 200
"""Classes of at least so many nodes that fit edges and features by less standard deviations may be drawn at random."""
LEAST = 20
"""What averaging does to the nodes shows after so many steps, before as well as after."""
TENTH = 10
"""So many times less than is usual is alike; a recurrent state may be, and sound, so that more is asked."""
LEARNED = 0.5
"""What has learned less than this share of what the most frequent class leaves has not learned much."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.train_split
    if patient.whole and isinstance(batch, Labeled) and patient.task == "classes":
        yield from _of_rows(patient, batch)
        return
    if not isinstance(batch, GraphBatch) or patient.task != "classes":
        raise Skip("it has no nodes to classify")
    told = telling_features(batch)
    if told is not None:
        yield Diagnosis(
            cause="label leakage in graph",
            evidence={"features": told},
            advice="leave these features out: they are the classes themselves, which no new node has",
            where=f"feature {told[0]}",
            confirmed_by="exact: each is set at the nodes of one class and at no other",
        )
        return
    others: dict[str, Any] = {name: split for name, split in patient.splits.items() if name != "train"}
    shared = {name: int((batch.mask & split.mask).sum()) for name, split in others.items()}
    if any(shared.values()):
        yield Diagnosis(
            cause="label leakage in graph",
            evidence=shared,
            advice="take the nodes of the other splits out of the training mask",
            where="the mask of the training split",
            confirmed_by="exact: the masks share nodes",
        )
        return
    model = trained(patient, least=LEAST)
    if _at_random(patient, batch, model):
        yield Diagnosis(
            cause="shuffled labels",
            evidence={**label_signal(batch), **patient.numbers},
            advice="check that classes and nodes are in the same order",
            where="classes of nodes",
            confirmed_by="neither edges nor features know the classes, and held-out nodes are at chance",
        )
        return
    spread = node_spread(model, batch)
    if len(spread) < 3:
        raise Skip("it has no hidden layer that is called with the graph")
    right, most = right_share(model, batch)
    yield from _smoothed(patient, spread, right, most)


def _of_rows(patient: Patient, batch: Labeled) -> Iterator[Diagnosis]:
    """Over-smoothing in a plain module whose rows are nodes: of the layers that give a vector for each of them."""
    model = trained(patient, least=LEAST)
    known = batch.y >= 0
    with torch.no_grad(), recorded(model) as calls:
        output = model(*batch.inputs)
    if not isinstance(output, Tensor) or output.ndim != 2 or batch.y.ndim != 1:
        raise Skip("it does not classify rows")
    y = batch.y[known]
    right, most = float((output.argmax(1)[known] == y).double().mean()), float(torch.bincount(y).max() / len(y))
    hidden = [call.output for call in calls if isinstance(call.output, Tensor) and call.output.ndim == 2]
    spread = [rows_apart(rows) for rows in (batch.x.flatten(1), *hidden) if len(rows) == len(output)]
    if len(spread) < 3:
        raise Skip("it has no hidden layer")
    yield from _smoothed(patient, spread, right, most)


def _smoothed(patient: Patient, spread: list[float], right: float, most: float) -> Iterator[Diagnosis]:
    patient.note(apart=spread[-2], accuracy=right, most_frequent=most)
    low = thresholds.typical("distinct_nodes", "apart") / TENTH
    if spread[-2] < low and spread[-2] < spread[0] and right < most + LEARNED * (1 - most):
        yield Diagnosis(
            cause="over-smoothing",
            evidence={
                "apart": spread[-2],
                "accuracy": right,
                "most_frequent": most,
                "figure": "bars",
                "bars": {f"layer {i}": value for i, value in enumerate(spread)},
            },
            advice="take fewer graph layers (two or three), or connections that skip layers",
            where=f"layer {len(spread) - 2}",
            confirmed_by="the features of the nodes are further apart, and little is learned",
            margin=low / max(spread[-2], 1e-12),
        )


def _at_random(patient: Patient, batch: GraphBatch, model: Any) -> bool:
    """Whether classes fit neither edges nor features, and the trained model is at chance on held-out nodes."""
    held = patient.splits.get("valid", patient.splits.get("test"))
    if int((batch.y >= 0).sum()) < FEWEST or not isinstance(held, GraphBatch):
        return False
    found = label_signal(batch)
    patient.note(**found)
    right, most = right_share(model, held)
    chance = most + 2 * math.sqrt(most * (1 - most) / max(1, len(held.counted)))
    return max(abs(found["edges"]), abs(found["features"])) < DEVIATIONS and right < chance

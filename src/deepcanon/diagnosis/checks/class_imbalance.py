"""Imbalance: rare classes are found, too.

Measured after a trial: the recall of each class, on held-out examples where there are any. Suspected where a class that
is at least twenty times rarer than the largest, with ten examples or more, is never found while those that are less
than ten times rarer are (recall above 0.8); named only if a copy that is trained on equally many examples of each class
finds it. Zeros and ones are classes, too. An imbalance by itself is healthy.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Labeled
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip, evaluating
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "dynamics", 40

RARER, FEWEST, WELL, FOUND = 20.0, 10, 0.8, 0.5


def check(patient: Patient) -> Iterator[Diagnosis]:
    split = patient.train_split
    if patient.whole:
        raise Skip("the examples belong together, and cannot be drawn more often")
    if not isinstance(split, Labeled) or not _has_classes(patient, split):
        raise Skip("there are no classes of examples")
    counts = torch.bincount(_classes(split)).double()
    ratio = float(counts.max() / counts[counts > 0].min())
    patient.note(largest_by_smallest=ratio)
    if ratio < RARER or len(counts) > 50:
        return
    held = next((patient.splits[name] for name in ("valid", "test") if name in patient.splits), split)
    recalls, examples = _recalls(patient, patient.reference.model, held, len(counts))
    lost = [
        place
        for place in range(len(counts))
        if 0 < counts[place] * RARER <= counts.max() and recalls[place] == 0 and examples[place] >= FEWEST
    ]
    frequent = [place for place in range(len(counts)) if counts[place] * RARER / 2 > counts.max()]
    others = [float(recalls[place]) for place in frequent if examples[place] > 0]
    if not lost or not others or min(others) < WELL:
        return
    balanced = patient.train(change=Change("with as many examples of each class", on_data=_balanced))
    after, _ = _recalls(patient, balanced.model, held, len(counts))
    patient.note(recall_when_balanced=float(after[lost[0]]))
    if float(after[lost[0]]) >= FOUND:
        yield Diagnosis(
            cause="class imbalance",
            evidence={
                "recall": 0.0,
                "recall_when_balanced": float(after[lost[0]]),
                "training_examples": int(counts[lost[0]]),
                "of_the_largest_class": int(counts.max()),
                "figure": "bars",
                "bars": {str(place): float(count) for place, count in enumerate(counts)},
            },
            advice="weight the classes in the loss, or draw rare ones more often",
            where=f"class {lost[0]} is never found",
            confirmed_by="a copy that is trained on balanced classes finds it",
            margin=ratio / RARER,
            change=patient.setting(class_weight="balanced"),
        )


def _has_classes(patient: Patient, split: Labeled) -> bool:
    """Whether each example has one label: a class, or a zero or a one."""
    if patient.task == "bits":
        return split.y.numel() == len(split)
    return patient.task == "classes" and split.y.ndim == 1 and int(split.y.min()) >= 0


def _classes(split: Labeled) -> Tensor:
    return split.y.flatten().long()


def _recalls(patient: Patient, model: nn.Module, split: AnyBatch, classes: int) -> tuple[Tensor, Tensor]:
    assert isinstance(split, Labeled)
    some = split.select(torch.arange(min(len(split), 4096)))
    assert isinstance(some, Labeled)
    with evaluating(model):
        predict = getattr(model, "predict", None)
        answer = predict(*some.inputs) if predict is not None else patient.outputs(model, some)
    if not isinstance(answer, Tensor) or len(answer) != len(some):
        raise Skip("there is no answer for each example")
    y = _classes(some)
    examples = torch.bincount(y, minlength=classes)[:classes]
    right = torch.bincount(y[_chosen(answer) == y], minlength=classes)[:classes]
    return right.double() / examples.clamp_min(1), examples


def _chosen(answer: Tensor) -> Tensor:
    """The classes that are answered: the largest output, or of one output its sign or, of a probability, its half."""
    if not answer.is_floating_point():
        return answer
    if answer.ndim == 2 and answer.shape[1] > 1:
        return answer.argmax(1)
    probability = bool((answer >= 0).all() and (answer <= 1).all())
    return (answer.flatten() > (0.5 if probability else 0.0)).long()


def _balanced(split: AnyBatch) -> AnyBatch:
    """The split with rare classes repeated."""
    assert isinstance(split, Labeled)
    generator = torch.Generator().manual_seed(0)
    y = _classes(split)
    most = int(torch.bincount(y).max())
    places = []
    for label in torch.unique(y):
        mine = (y == label).nonzero().flatten()
        places.append(mine[torch.randint(len(mine), (most,), generator=generator)])
    return split.part(torch.cat(places))

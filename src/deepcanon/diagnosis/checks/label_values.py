"""Label values: classes are those that the model has, and every split has all of them.

Measured: the classes of each split and the number of outputs; exact. A label beyond the outputs fails or is learned as
another class; negative ones that a step of the user's own leaves out are of examples without a label. A class that the
training split lacks cannot be learned, and one that a held-out split lacks is not measured: alarmed where chance would
have given at least 20 of its examples. Targets of a binary cross-entropy lie in [0, 1]; beyond, that loss has no
minimum.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from deepcanon.core import Labeled
from deepcanon.diagnosis.anatomy import Operations
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import EXAMPLES, Patient, Skip, evaluating

STAGE, PLACE = "data", 30

EXPECTED = 20
"""A class is missing only if chance would have given so many of its examples."""

FEW_STEPS = 5
"""So many steps of the user's own show whether it takes all labels."""

FEW = 50
"""With more outputs than these (the words of a vocabulary) not every one must be seen."""

BINARY = (nn.BCELoss, nn.BCEWithLogitsLoss)
BINARY_FUNCTIONS = (functional.binary_cross_entropy, functional.binary_cross_entropy_with_logits)


def check(patient: Patient) -> Iterator[Diagnosis]:
    split = patient.train_split
    if not isinstance(split, Labeled):
        raise Skip("the examples have no labels")
    if patient.task != "classes":
        yield from _targets(patient, split.y)
        return
    y = split.y.flatten()
    if y.dtype == torch.bool:
        return
    counted = y[y != -100]
    outputs = _outputs(patient, split)
    if outputs is not None and len(counted) and _leaves_out(patient, counted, outputs):
        counted = counted[counted >= 0]
    patient.note(classes=int(counted.max()) + 1 if len(counted) else 0, outputs=outputs)
    if outputs is not None and len(counted) and (int(counted.max()) >= outputs or int(counted.min()) < 0):
        yield Diagnosis(
            cause="labels out of range",
            evidence={"lowest": int(counted.min()), "highest": int(counted.max()), "outputs": outputs},
            advice="count classes from 0, and give the model as many outputs as there are classes",
            where=f"row {int(((y >= outputs) | ((y < 0) & (y != -100))).nonzero()[0])} of the train split",
            confirmed_by="exact: the labels themselves",
        )
        return
    if split.y.ndim != 1 or int(counted.min()) < 0:
        return
    yield from _missing(patient, counted, outputs)


def _leaves_out(patient: Patient, y: Tensor, outputs: int) -> bool:
    """Whether a step of the user's own leaves negative labels out, as of examples without one: no loss takes them."""
    if patient.step is None or int(y.min()) >= 0 or int(y.max()) >= outputs:
        return False
    try:
        return patient.train(FEW_STEPS, seconds=patient.budget).finite
    except (RuntimeError, ValueError, IndexError):
        return False


def _missing(patient: Patient, y: Tensor, outputs: int | None) -> Iterator[Diagnosis]:
    """Classes that a split lacks."""
    classes = int(y.max()) + 1
    held = {name: each.labels for name, each in patient.splits.items() if name != "train" and each.labels is not None}
    known = max([classes, *(int(each.max()) + 1 for each in held.values() if len(each))])
    if known > FEW or (outputs or 0) > FEW:
        return
    width = max(known, outputs or 0) if (outputs or 0) > 2 or known > 2 else known
    counts = torch.bincount(y, minlength=width)
    if int((counts > 0).sum()) == 1 and len(y) > 1:
        yield Diagnosis(
            cause="missing class",
            evidence={"class": int(y[0]), "examples": len(y)},
            advice="look at how the labels are read or split: all are the same",
            where="all labels of the train split are the same",
            confirmed_by="exact: the labels themselves",
        )
        return
    absent = [each for each in range(width) if counts[each] == 0]
    if absent and len(y) / width >= EXPECTED:
        yield _absent(absent, "training", len(y))
        return
    for name, labels in held.items():
        there = torch.bincount(labels.flatten(), minlength=width)
        expected = counts.double() / len(y) * len(labels)
        lacking = [each for each in range(width) if there[each] == 0 and expected[each] >= EXPECTED]
        if lacking:
            yield _absent(lacking, {"valid": "validation"}.get(name, name), len(labels))
            return


def _absent(classes: list[int], split: str, examples: int) -> Diagnosis:
    return Diagnosis(
        cause="missing class",
        evidence={"missing": ", ".join(map(str, classes)), "examples": examples},
        advice="split the data so that every class is in every part (stratified)",
        where=f"class {classes[0]} has no example in the {split} split",
        confirmed_by="exact: the labels themselves",
    )


def _targets(patient: Patient, y: Tensor) -> Iterator[Diagnosis]:
    loss = patient.criterion
    if not isinstance(loss, BINARY) and loss not in BINARY_FUNCTIONS:
        return
    low, high = float(y.min()), float(y.max())
    if low < 0 or high > 1:
        yield Diagnosis(
            cause="labels out of range",
            evidence={"lowest": low, "highest": high},
            advice="give zeros and ones, or probabilities, as targets",
            where="targets outside [0, 1] of a binary cross-entropy",
            confirmed_by="exact: the targets themselves",
        )


def _outputs(patient: Patient, split: Labeled) -> int | None:
    """The number of outputs, where they are one for each class."""
    usual = isinstance(patient.criterion, nn.CrossEntropyLoss | nn.NLLLoss) or patient.criterion in (
        functional.cross_entropy,
        functional.nll_loss,
    )
    own = patient.ours is not None and getattr(patient.ours, "classes", None)
    if not usual and not own and (patient.step is None or not _has_cross_entropy(patient, split)):
        return None
    with evaluating(patient.model):
        try:
            output = patient.outputs(patient.model, split.select(torch.arange(min(2, len(split)))))
        except (RuntimeError, ValueError, IndexError, TypeError):
            return None  # which another check says
    if not isinstance(output, Tensor) or output.ndim < 2:
        return None
    if own and int(own) != output.shape[-1]:
        return None
    return int(output.shape[1]) if output.shape[1] > 1 else None


def _has_cross_entropy(patient: Patient, split: Labeled) -> bool:
    """Whether a user's own step has a cross-entropy of the labels; else its outputs may be anything."""
    try:
        with Operations(frozenset({"cross_entropy", "nll_loss"})) as used:
            patient.loss(patient.twin(), split.select(torch.arange(min(EXAMPLES, len(split)))))
    except (RuntimeError, ValueError, IndexError, TypeError, Skip):
        return True  # it may be the labels that it fails at
    return bool(used.seen)

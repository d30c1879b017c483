"""Class weights: how much an example of each class counts in the loss of a classifier."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, UsageError
from deepcanon.core.plural import counted


def class_weights(asked: str, train: AnyBatch, classes: int) -> Tensor:
    """The weight of each class: ``balanced`` gives all classes the same weight in sum, else they are written 1/20.

    Balanced weights are N / (classes * examples of the class), of which the mean over the training examples is 1.

    >>> from deepcanon.core import Labeled
    >>> class_weights("balanced", Labeled(torch.zeros(4, 1), torch.tensor([0, 0, 0, 1])), 2)
    tensor([0.6667, 2.0000])
    """
    labels = train.labels
    if labels is None or labels.is_floating_point():
        raise UsageError(f"class weights are for classes; {train.noun} with real targets or none have none")
    if asked == "balanced":
        counts = torch.bincount(labels.cpu(), minlength=classes)
        return (len(labels) / (counts.clamp_min(1) * classes)).float()  # a class without examples never counts
    try:
        values = [float(part) for part in asked.split("/")]
    except ValueError:
        values = []
    if len(values) != classes or not all(value > 0 and math.isfinite(value) for value in values):
        raise UsageError(
            "class_weight is balanced, or a positive number for each of the "
            f"{counted(classes, 'class', '', 'classes')}, {'/'.join(['1'] * (classes - 1))}/20 for instance; got "
            f"{asked!r}"
        )
    return torch.tensor(values)


def weight_classes(learners: Iterable[Any], asked: str | None, train: AnyBatch, name: str) -> None:
    """Give the classifiers among the learners their class weights, or take back what a training before gave them."""
    able = [learner for learner in learners if hasattr(learner, "class_weight") and _classes(learner)]
    if asked is not None and not able:
        raise UsageError(f"{name} does not learn by the cross-entropy of classes, so leave out class_weight")
    for learner in able:
        weights = None if asked is None else class_weights(asked, train, _classes(learner)).to(train.device)
        learner.class_weight = weights


def _classes(learner: Any) -> int:
    """The number of classes that a model predicts; 0 of one that predicts targets."""
    return learner.hparams.get("classes") or 0

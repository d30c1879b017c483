"""Semi-supervised data: a labeled set with all but a few labels of its training split hidden, ``moons:labels=6``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torch

from deepcanon.core import DataError, Labeled, SemiBatch, UsageError
from deepcanon.data.dataset import Dataset
from deepcanon.data.split import stratified_order

MARK = "labels="
"""The beginning of the suffix of the form."""


def read_form(name: str, form: str) -> tuple[int, int]:
    """The number of labels and the seed that a form asks for.

    >>> read_form("moons", "labels=6"), read_form("moons", "labels=6,seed=3")
    ((6, 0), (6, 3))
    """
    found = re.fullmatch(rf"{MARK}(\d+)(?:,seed=(\d+))?", form)
    if found is None:
        raise UsageError(f"few labels are written {name}:labels=40 or {name}:labels=40,seed=1; got {name}:{form}")
    return int(found[1]), int(found[2] or 0)


def few_labels(data: Dataset[Any], form: str) -> Dataset[SemiBatch]:
    """Semi-supervised data with so many labels left in the training split; its other examples are unlabeled.

    The labels that stay depend on the seed alone and are stratified by class. The validation and test splits keep all
    labels; a missing validation split is taken from the training split first, since none can be taken from so few
    labels later.
    """
    count, seed = read_form(data.name, form)
    data = data.with_validation_split(seed=0)
    train = data.train
    if not train.is_a(Labeled) or isinstance(train, SemiBatch) or train.y.is_floating_point():
        raise DataError(f"labels are hidden of examples that have classes, which {data.name} does not give")
    classes = data.sizes["classes"]
    if not classes <= count <= len(train) // 2:
        raise DataError(
            f"{data.name} has {len(train)} training examples of {classes} classes; of their labels at least {classes} "
            f"and at most half, {len(train) // 2}, can stay (got {count})"
        )
    order = torch.from_numpy(stratified_order(train.y.numpy(), seed))
    missing = classes - len(train.y[order[:count]].unique())
    if missing:
        raise DataError(
            f"{count} labels leave {missing} of the {classes} classes of {data.name} without one: keep more"
        )
    few, rest = train.select(order[:count]), train.select(order[count:].sort().values)
    before = data.preprocessing.get("form")
    return replace(
        data,
        name=f"{data.name}:{form}",
        train=SemiBatch(few.x, few.y, rest.x),
        preprocessing={**data.preprocessing, "form": f"{before}:{form}" if before else form},
    )

"""Examples as rows of numbers, and what probes without a model see in them."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Batch, Labeled, SemiBatch
from deepcanon.diagnosis.patient import Patient, Skip

MOST = 4000
"""So many rows of a split are looked at."""

WIDEST = 4096
"""Examples of more values are not taken for rows."""


def rows_of(split: AnyBatch, most: int = MOST) -> Tensor:
    """The first examples of a split as rows of numbers, in double precision; of a large split, spread over it."""
    if not isinstance(split, Batch) or not split.in_memory or split.x.layout != torch.strided:
        raise Skip(f"the data are {getattr(type(split), 'noun', 'of another kind')}, not rows of numbers")
    count = len(split.x)
    place = torch.arange(count) if count <= most else torch.arange(most) * count // most
    found = split.x.index_select(0, place).flatten(1).double()
    if found.shape[1] > WIDEST:
        raise Skip(f"an example has {found.shape[1]} values, too many for this check")
    return found


def labels_of(split: AnyBatch, most: int = MOST) -> Tensor:
    """The labels that belong to :func:`rows_of`: one number for each example."""
    if not isinstance(split, Labeled):
        raise Skip("the examples have no labels")
    count = len(split.x)
    place = torch.arange(count) if count <= most else torch.arange(most) * count // most
    y = split.y.index_select(0, place)
    y = y.squeeze(-1) if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1:
        raise Skip("an example has several labels")
    return y


def real_rows(patient: Patient) -> Tensor:
    """The training examples as rows, where they are real numbers; of few labeled among unlabeled ones, the latter."""
    if not patient.train_split.x.is_floating_point():
        raise Skip("the inputs are whole numbers")
    split = patient.train_split
    return rows_of(Batch(split.unlabeled) if isinstance(split, SemiBatch) else split)


def standardized(rows: Tensor) -> Tensor:
    """Rows with features of mean 0 and standard deviation 1; constant ones become 0."""
    std = rows.std(0, correction=0)
    return torch.where(std > 0, (rows - rows.mean(0)) / std.clamp_min(1e-300), 0.0)


def nearest(rows: Tensor) -> Tensor:
    """For each row the place of its nearest neighbor."""
    distance = torch.cdist(rows, rows)
    distance.fill_diagonal_(torch.inf)
    return distance.argmin(1)


def one_hot(y: Tensor) -> Tensor:
    """Targets of a linear probe: of classes one column each, of numbers themselves, all standardized."""
    columns = (
        y.double().unsqueeze(1)
        if y.is_floating_point()
        else torch.nn.functional.one_hot(torch.unique(y, return_inverse=True)[1]).double()
    )
    return standardized(columns)

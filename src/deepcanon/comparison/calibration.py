"""Calibration error and confusion matrix of a classifier."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import TypedDict

from deepcanon.core import Labeled, Model
from deepcanon.core.roles import Predicts
from deepcanon.data import Batches

BINS = 15


class PredictionMeasures(TypedDict):
    """The expected calibration error (ECE), and the confusion matrix with true classes by row."""

    calibration: float
    confusion: list[list[int]]


def measure_predictions(model: Model[Any], held_out: Labeled, size: int = 1024) -> PredictionMeasures | None:
    """The measures of a classifier beyond its own metrics; None for a model that is not a classifier."""
    if not isinstance(model, Predicts) or held_out.y.is_floating_point():
        return None
    with torch.no_grad():
        probabilities = torch.cat([model.predict(*part.inputs, how="mean").cpu() for part in Batches(held_out, size)])
    true = held_out.y.cpu()
    return {"calibration": calibration_error(probabilities, true), "confusion": confusion_counts(probabilities, true)}


def calibration_error(probabilities: Tensor, true: Tensor, bins: int = BINS) -> float:
    r"""The expected calibration error (ECE): the mean difference of confidence and accuracy.

    .. math:: \sum_b \frac{n_b}{N} \left| \text{accuracy}_b - \text{confidence}_b \right|

    Examples are sorted into ``bins`` of equal width by the probability of the predicted class.

    References:
        | On Calibration of Modern Neural Networks (Guo et al., 2017), https://arxiv.org/abs/1706.04599

    >>> sure = torch.tensor([[1.0, 0.0]]).repeat(4, 1)
    >>> calibration_error(sure, torch.tensor([0, 0, 0, 1]))
    0.25
    """
    confidence, predicted = probabilities.double().max(1)
    right = (predicted == true).double()
    number = (confidence * bins).ceil().long().clamp(1, bins) - 1  # bins are open below: (0, 1/15], (1/15, 2/15] ...
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, number, right - confidence)
    return float(gaps.abs().sum() / len(true))


def confusion_counts(probabilities: Tensor, true: Tensor) -> list[list[int]]:
    """The confusion matrix: the number of examples by true class (row) and predicted class (column).

    >>> confusion_counts(torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]), torch.tensor([0, 0, 1]))
    [[1, 1], [0, 1]]
    """
    classes = probabilities.shape[1]
    pairs = true * classes + probabilities.argmax(1)
    counts: list[list[int]] = torch.bincount(pairs, minlength=classes**2).reshape(classes, classes).tolist()
    return counts

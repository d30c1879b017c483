"""Scores of predictions on a whole split: those of classes, also where they are unequal in size, and of targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import TypedDict

from deepcanon.core import AnyBatch, UsageError
from deepcanon.core.roles import Predicts
from deepcanon.data.dataset import Batches

OF_CLASSES = ("balanced_accuracy", "f1", "roc_auc", "pr_auc")
OF_TARGETS = ("rmse", "r2")
"""The scores of all predictions at once; more is better of all but ``rmse``."""


class ClassScores(TypedDict):
    """One class against all others: how many examples are its own, predicted to be, and found, which is both.

    ``recall`` is the share of its examples that are found, ``precision`` that of its predictions that are right, and
    ``f1`` their harmonic mean. ``roc_auc`` is the area under the curve of the true over the false positive rate, the
    probability that one of its examples is given a higher probability of it than another; ``pr_auc`` is the average
    precision. What is not defined, as of a class without examples, is None.
    """

    examples: int
    predicted: int
    found: int
    recall: float | None
    precision: float | None
    f1: float | None
    roc_auc: float | None
    pr_auc: float | None


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predictions for a whole split, ``mean``, next to what is ``true``.

    Of classes they are probabilities, (N, classes), and classes, (N,); of targets both are (N, targets).
    """

    mean: Tensor
    true: Tensor

    @property
    def is_classes(self) -> bool:
        return not self.true.is_floating_point()

    @cached_property
    def by_class(self) -> list[ClassScores]:
        """The scores of each class; none of targets.

        >>> right = Predicted(torch.eye(2), torch.tensor([0, 1]))
        >>> [each["recall"] for each in right.by_class]
        [1.0, 1.0]
        """
        if not self.is_classes:
            return []
        modes, classes = self.mean.argmax(1), self.mean.shape[1]
        which = (self.true, modes, self.true[modes == self.true])
        counts = torch.stack([each.bincount(minlength=classes) for each in which], 1).tolist()
        columns, true = self.mean.T.contiguous().numpy(), self.true.numpy()
        return [_class_scores(column, true == place, *counts[place]) for place, column in enumerate(columns)]

    def scores(self) -> dict[str, float]:
        """The scores of all classes together, means over those that have examples; or those of the targets.

        The mean of the recalls is the balanced accuracy. Scores of a curve need examples of two classes, and the
        coefficient of determination targets that differ: else they are left out.
        """
        return _of_classes(self.by_class) if self.is_classes else _of_targets(self.mean, self.true)


class Collected:
    """The predictions for the parts of a split, one after the other."""

    def __init__(self) -> None:
        self.means: list[Tensor] = []
        self.labels: list[Tensor] = []

    def add(self, part: AnyBatch, mean: Tensor) -> None:
        """Add the mean that is predicted for a part, if that has labels."""
        if part.labels is not None:
            self.means.append(part.where_labeled(mean).cpu())
            self.labels.append(part.labels.cpu())

    def all(self) -> Predicted | None:
        """All predictions; None if there are none, or of something else than labels and targets."""
        if not self.means:
            return None
        mean, true = torch.cat(self.means), torch.cat(self.labels)
        if true.is_floating_point() or mean.dtype != torch.float32:  # float32 is sorted faster, and enough for an order
            mean = mean.double()
        fits = mean.shape == true.shape if true.is_floating_point() else mean.ndim == 2 and len(mean) == len(true)
        return Predicted(mean, true.double() if true.is_floating_point() else true) if fits else None


def gather(model: Any, split: AnyBatch, size: int = 1024) -> Predicted | None:
    """The predictions of a model for a split; None of a model that predicts no labels or targets of these."""
    if split.labels is None or not isinstance(model, Predicts) or len(split) == 0:
        return None
    found = Collected()
    try:
        with torch.no_grad():
            for part in Batches(split, size):
                found.add(part, model.predict(*part.inputs, how="mean"))
    except UsageError:  # torch has no mean of the distribution of this head
        return None
    return found.all()


def areas(score: np.ndarray[Any, Any], positive: np.ndarray[Any, Any]) -> tuple[float, float]:
    r"""The areas under the ROC curve and, as average precision, under the precision-recall curve.

    .. math:: \text{ROC} = P(s_+ > s_-) + \tfrac12 P(s_+ = s_-), \qquad \text{PR} = \sum_t (R_t - R_{t-1})\, P_t

    The sum is over the distinct scores t from the highest on, with the recall and the precision of all that reach them.
    Only the scores of positives add to either: each is looked up among all scores in order.

    References:
        | An introduction to ROC analysis (Fawcett, 2006), https://doi.org/10.1016/j.patrec.2005.10.010
        | The relationship between Precision-Recall and ROC curves (Davis & Goadrich, 2006),
        | https://doi.org/10.1145/1143844.1143874

    >>> areas(np.array([0.9, 0.8, 0.3]), np.array([True, False, True]))
    (0.5, 0.8333333333333333)
    """
    ordered, own = np.sort(score), np.sort(score[positive])
    below, own_below = ordered.searchsorted(own), own.searchsorted(own)
    upto, own_upto = ordered.searchsorted(own, "right"), own.searchsorted(own, "right")
    beaten = (below - own_below + upto - own_upto) / 2  # negatives below each positive, ties by half
    precision = (len(own) - own_below) / (len(ordered) - below)
    return float(beaten.mean() / (len(ordered) - len(own))), float(precision.mean())


def _class_scores(
    probability: np.ndarray[Any, Any], true: np.ndarray[Any, Any], examples: int, claimed: int, found: int
) -> ClassScores:
    roc, pr = areas(probability, true) if 0 < examples < len(true) else (None, None)
    return {
        "examples": examples,
        "predicted": claimed,
        "found": found,
        "recall": found / examples if examples else None,
        "precision": found / claimed if claimed else None,
        "f1": 2 * found / (examples + claimed) if examples else None,
        "roc_auc": roc,
        "pr_auc": pr,
    }


def _of_classes(classes: list[ClassScores]) -> dict[str, float]:
    columns = {
        "balanced_accuracy": [each["recall"] for each in classes],
        "f1": [each["f1"] for each in classes],
        "roc_auc": [each["roc_auc"] for each in classes],
        "pr_auc": [each["pr_auc"] for each in classes],
    }
    known = {name: [value for value in column if value is not None] for name, column in columns.items()}
    return {name: sum(values) / len(values) for name, values in known.items() if values}


def _of_targets(mean: Tensor, true: Tensor) -> dict[str, float]:
    if not len(true):  # a user may have rated nothing that was held out
        return {}
    errors = (mean - true).square().mean(0)
    spread = true.var(0, correction=0)
    found = {"rmse": float(errors.sum().sqrt())}
    if bool((spread > 0).all()):
        found["r2"] = float((1 - errors / spread).mean())
    return found

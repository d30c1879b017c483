"""Baselines of methods that learn a classifier: the same one without the method on the same labels, and a classical."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepcanon.core import Blueprint, Labeled, Model, SemiBatch
from deepcanon.core.plural import counted
from deepcanon.data import Dataset
from deepcanon.train import Settings, fit
from deepcanon.train.randomness import kept

NEIGHBORS = (7, 20)
ALPHAS = (0.2, 0.8, 0.95)
"""The numbers of neighbors of label spreading and its clamping factors; the best on validation data is kept."""
MOST = 4000
"""More unlabeled examples are not given to label spreading: its graph would take too long."""

Predict = Callable[[Tensor], Tensor]
"""The probabilities of the classes, (B, classes)."""


@dataclass(frozen=True)
class Baseline:
    """A baseline of a method: its name, its predictions if it has the same classes, its accuracy on held-out data."""

    name: str
    predict: Predict | None
    accuracy: float


def label_baselines(
    method: Model[Any],
    asked: Blueprint,
    data: Dataset[Any],
    settings: Settings,
    notify: Callable[[str], None] = lambda sentence: None,
) -> list[Baseline]:
    """A trained method compared with learning from the labels without it, measured on the same held-out examples.

    The same classifier is trained from the same start by the same settings. Of a semi-supervised method that is on the
    labeled examples alone, once as they are and once perturbed as the method perturbs, and label spreading uses the
    unlabeled examples too; else a logistic regression stands next to it.
    """
    held = data.split("valid" if data.test is None else "test")
    own: Any = type(method)
    few = hasattr(own, "supervised")
    cases = {"supervised": own.null, "supervised, same augmentation": own.supervised} if few else {}
    found = []
    for name, changes in (cases or {own.null_name: own.null}).items():
        notify(f"To compare, {name}: training on the {counted(len(data.train.x), 'labeled example')} alone ...")
        baseline = built(asked.changed(changes), data, settings)
        fit(baseline, data, quiet=True, **settings)
        found.append(measured(name, says(baseline), held))
    if few:
        found.append(measured("LabelSpreading (scikit-learn)", label_spreading(data), held))
    else:
        found.append(measured("LogisticRegression (scikit-learn)", logistic_regression(data), held))
    return [*found, measured(method.name(), says(method), held)]


def built(asked: Blueprint, data: Dataset[Any], settings: Settings) -> Any:
    """The model that is asked for, from the same start as that of the run."""
    with kept():
        torch.manual_seed(settings["seed"])
        return asked.build(data.model_sizes, data.name)


def label_spreading(data: Dataset[SemiBatch]) -> Predict:
    """Scikit-learn's label spreading over the graph of nearest neighbors, its settings chosen on validation data."""
    from sklearn.semi_supervised import LabelSpreading

    few = data.train
    rest = few.unlabeled[:: -(-len(few.unlabeled) // MOST)]
    x = torch.cat([few.x, rest]).flatten(1).double().cpu().numpy()
    y = np.concatenate([few.y.cpu().numpy(), np.full(len(rest), -1)])
    best: tuple[float, Predict] | None = None
    for neighbors, alpha in product(NEIGHBORS, ALPHAS):
        model = LabelSpreading(kernel="knn", n_neighbors=min(neighbors, len(x) - 1), alpha=alpha, max_iter=200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what no label reaches has no probabilities, and slow spreading is kept
            model.fit(x, y)
        predict = _spread(model, data.sizes["classes"])
        right = _accuracy(predict, data.split("valid"))
        if best is None or right > best[0]:
            best = (right, predict)
    assert best is not None
    return best[1]


def logistic_regression(data: Dataset[Labeled]) -> Predict:
    """Scikit-learn's logistic regression on standardized features and the labels of the training, or votes."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    step = -(-len(data.train.x) // MOST)
    x, y = data.train.x[::step].flatten(1).double().cpu().numpy(), data.train.y[::step].cpu().numpy()
    if len(np.unique(y)) < 2:
        return lambda rows: torch.nn.functional.one_hot(torch.full((len(rows),), int(y[0])), data.sizes["classes"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where classes are far apart it has no optimum, and what is reached is kept
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, y)
    return _spread(model, data.sizes["classes"])


def _spread(model: Any, classes: int) -> Predict:
    def predict(x: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shares = model.predict_proba(x.flatten(1).double().cpu().numpy())
        known = torch.from_numpy(np.nan_to_num(shares, nan=1 / classes)).float()
        return torch.zeros(len(x), classes).index_copy(1, torch.from_numpy(model.classes_).long(), known)

    return predict


def says(model: Any) -> Predict:
    """The predictions of a trained classifier."""

    def predict(x: Tensor) -> Tensor:
        device = next(model.parameters()).device
        probabilities: Tensor = model.eval().predict(x.to(device), how="mean").cpu()
        return probabilities

    return predict


def measured(name: str, predict: Predict, held: Labeled) -> Baseline:
    """A baseline with its accuracy on these examples."""
    return Baseline(name, predict, _accuracy(predict, held))


def _accuracy(predict: Predict, batch: Labeled) -> float:
    return float((predict(batch.x).argmax(-1) == batch.y.cpu()).double().mean())

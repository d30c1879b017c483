"""Baselines of scikit-learn for tables with classes or one number: boosting, a forest, neighbors, the linear model.

The last two are also those of images, pixel by pixel.

References:
    | LightGBM: A Highly Efficient Gradient Boosting Decision Tree (Ke et al., 2017), the model of HistGradientBoosting,
      https://papers.nips.cc/paper/6907
    | Random Forests (Breiman, 2001), https://doi.org/10.1023/A:1010933404324
    | Why do tree-based models still outperform deep learning on typical tabular data? (Grinsztajn et al., 2022),
      https://arxiv.org/abs/2207.08815
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Generator as Parts
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.core import How, Labeled, LabeledSequences, UsageError
from deepcanon.core.plural import counted
from deepcanon.data import Dataset
from deepcanon.data.split import stratified_order

TREES = 300
ROUNDS, PATIENCE = 500, 20
"""The most trees of boosting, and how many may pass without a gain on validation data."""
PART = 25
"""After so many trees a budget is looked at."""
ITERATIONS, LAPS = 100, 10
"""The iterations of the linear model after which a budget is looked at, and how often so many are made at most."""
NEIGHBORS = (1, 3, 5, 10, 20, 50, 100)
MOST = 50_000
"""Of more training rows than these the forest and the neighbors get a sample of so many."""

MOST_PIXELS, FEWEST_IMAGES = 5_000_000, 1000
"""Of more images than have so many pixels, the linear model and the neighbors get a sample, but of so many at least."""

Values = NDArray[Any]


class Estimator(BaselineMethod):
    """An estimator of scikit-learn, with the predictions of a model."""

    of_classes: ClassVar[bool] = True
    of_numbers: ClassVar[bool] = True
    of_images: ClassVar[bool] = False

    def __init__(
        self, fitted: Any, classes: int | None, votes: int | None = None, progress: tuple[int, int] = (1, 1)
    ) -> None:
        self.fitted = fitted
        self.classes = classes
        self.progress = progress
        self.votes = votes
        """Of how many votes the probabilities are shares; None if they are not."""

    @classmethod
    def suits(cls, data: Dataset[Any]) -> bool:
        rows = isinstance(data.train, Labeled) and not isinstance(data.train, LabeledSequences)
        if not rows or data.kind not in (("table", "points", "images") if cls.of_images else ("table", "points")):
            return False
        return cls.of_classes if "classes" in data.sizes else cls.of_numbers and data.sizes.get("targets") == 1

    @classmethod
    def fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        from sklearn.exceptions import ConvergenceWarning
        from threadpoolctl import threadpool_limits

        with threadpool_limits(torch.get_num_threads()), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a fit that could go on is a baseline, too
            yield from cls._fitting(data, seed)

    @classmethod
    @abstractmethod
    def _fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]: ...

    def predict(self, x: Tensor, *, how: How = "mode", generator: Generator | None = None) -> Tensor:
        return self._predicted(_rows(x), how, generator)

    def _predicted(self, rows: Any, how: How, generator: Generator | None) -> Tensor:
        if how == "sample" or generator is not None:
            raise UsageError(f"{self.label} draws nothing; ask for the mode or the mean")
        if self.classes is None:
            return torch.from_numpy(np.asarray(self.fitted.predict(rows), dtype=np.float64).reshape(-1, 1))
        shares = np.zeros((rows.shape[0], self.classes))
        shares[:, self.fitted.classes_] = self.fitted.predict_proba(rows)
        if self.votes is not None:
            shares = (self.votes * shares + 1) / (self.votes + self.classes)
        found = torch.from_numpy(shares)
        return found if how == "mean" else found.argmax(1)


class GradientBoosting(Estimator):
    """Gradient-boosted trees, which stop where validation data gain nothing any more."""

    name = "gradient_boosting"
    label = "HistGradientBoosting (scikit-learn)"

    @classmethod
    def _fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        classes = data.sizes.get("classes")
        kind = HistGradientBoostingRegressor if classes is None else HistGradientBoostingClassifier
        x, y = _parts(data.train)
        valid = data.valid if data.valid is not None and _known(data.valid, y, classes) else None
        stopping: dict[str, Any] = {"early_stopping": True, "n_iter_no_change": PATIENCE} if valid is not None else {}
        boosted = kind(random_state=seed, warm_start=True, **stopping)
        most = boosted.max_iter if valid is None else ROUNDS
        held = {} if valid is None else dict(zip(("X_val", "y_val"), _parts(valid), strict=True))
        for rounds in (*range(PART, most, PART), most):
            boosted.set_params(max_iter=rounds).fit(x, y, **held)
            ended = boosted.n_iter_ < rounds  # nothing is gained any more
            yield cls(boosted, classes, progress=(rounds, rounds if ended else most))
            if ended:
                return


class RandomForest(Estimator):
    """A random forest, in which every tree votes; classes are counted once more than they have votes."""

    name = "random_forest"
    label = "RandomForest (scikit-learn)"

    @classmethod
    def _fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        classes = data.sizes.get("classes")
        kind = RandomForestRegressor if classes is None else RandomForestClassifier
        x, y = _sample(*_parts(data.train), classes)
        features = "sqrt" if classes is not None else 1 / 3
        forest = kind(max_features=features, random_state=seed, n_jobs=1, warm_start=True)
        for trees in (*range(PART, TREES, PART), TREES):
            yield cls(forest.set_params(n_estimators=trees).fit(x, y), classes, trees, (trees, TREES))


class Neighbors(Estimator):
    """The nearest neighbors, as many as are best on validation data; classes are counted once more than they vote."""

    name = "neighbors"
    label = "KNeighbors (scikit-learn)"
    of_images = True

    @classmethod
    def _fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

        classes = data.sizes.get("classes")
        kind = KNeighborsRegressor if classes is None else KNeighborsClassifier
        x, y = _sample(*_parts(data.train), classes, min(MOST, _most_rows(data)))
        counts = [count for count in NEIGHBORS if count <= len(x)]
        if data.valid is None:
            counts = counts[:3][-1:]
        best, lowest = None, np.inf
        for tried, count in enumerate(counts, 1):
            each = cls(kind(count, n_jobs=1).fit(x, y), classes, count)
            loss = 0.0 if data.valid is None else each._loss(data.valid)
            if best is None or loss < lowest:
                best, lowest = each, loss
            best.progress = (tried, len(counts))
            yield best

    @property
    def choice(self) -> str:
        return counted(self.votes or 0, "neighbor")

    def _loss(self, valid: Labeled) -> float:
        mean = self.predict(valid.x, how="mean")
        if self.classes is None:
            return float((mean - valid.y.double()).square().mean())
        return float(-mean.gather(1, valid.y.unsqueeze(1)).log().mean())


class LogisticRegression(Estimator):
    """The linear model of classes."""

    name = "logistic"
    label = "LogisticRegression (scikit-learn)"
    of_numbers = False
    of_images = True

    @classmethod
    def _fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        from sklearn.linear_model import LogisticRegression as Logistic
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        linear = Logistic(max_iter=ITERATIONS, random_state=seed, warm_start=True)
        model = make_pipeline(StandardScaler(), linear)
        x, y = _sample(*_parts(data.train), data.sizes["classes"], _most_rows(data))
        for lap in range(1, LAPS + 1):
            model.fit(x, y)
            ended = bool((linear.n_iter_ < ITERATIONS).all())
            yield cls(model, data.sizes["classes"], progress=(lap, lap if ended else LAPS))
            if ended:
                return


class Ridge(Estimator):
    """The linear model of a number."""

    name = "ridge"
    label = "Ridge (scikit-learn)"
    of_classes = False
    of_images = True

    @classmethod
    def _fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        from sklearn.linear_model import Ridge as LinearRidge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        x, y = _sample(*_parts(data.train), None, _most_rows(data))
        yield cls(make_pipeline(StandardScaler(), LinearRidge()).fit(x, y), None)


def _rows(x: Tensor) -> Values:
    return x.detach().cpu().flatten(1).double().numpy()


def _parts(split: Labeled) -> tuple[Values, Values]:
    """The rows and the labels, one number each."""
    return _rows(split.x), split.y.cpu().numpy().reshape(-1)


def _known(valid: Labeled, y: Values, classes: int | None) -> bool:
    """Whether validation data can stop a training: they have no class that it has not seen."""
    return classes is None or bool(np.isin(valid.y.cpu().numpy(), y).all())


def _most_rows(data: Dataset[Any]) -> int:
    """How many rows are taken: of images so many that they have as many pixels as are allowed, else all."""
    return max(FEWEST_IMAGES, MOST_PIXELS // data.sizes["features"]) if data.kind == "images" else len(data.train)


def _sample(x: Values, y: Values, classes: int | None, most: int | None = None) -> tuple[Values, Values]:
    """At most so many rows as are allowed, always the same ones, of every class its share."""
    most = MOST if most is None else most
    if len(x) <= most:
        return x, y
    chosen = stratified_order(y if classes is not None else np.zeros(len(y), dtype=np.int64), seed=0)[:most]
    return x[chosen], y[chosen]

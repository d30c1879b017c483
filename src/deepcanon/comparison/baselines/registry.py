"""The baselines by name, and which of them stand next to models on some data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepcanon.blueprints import blueprint
from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.comparison.baselines.graphs_alone import LabelPropagation, NodeFeatures
from deepcanon.comparison.baselines.markov_chain import ChosenMarkovChain
from deepcanon.comparison.baselines.rating_biases import RatingBiases
from deepcanon.comparison.baselines.scikit_learn import (
    GradientBoosting,
    LogisticRegression,
    Neighbors,
    RandomForest,
    Ridge,
)
from deepcanon.comparison.baselines.seasonal import ExponentialSmoothing, SeasonalNaive
from deepcanon.comparison.baselines.texts_and_links import BagOfWords, CommonNeighbors, PreferentialAttachment
from deepcanon.core import Batch, Blueprint, DeepcanonError, UsageError
from deepcanon.core.hints import unknown
from deepcanon.core.roles import METHODS as METHODS_OF_MODELS
from deepcanon.core.roles import HasLogProb
from deepcanon.data import Dataset
from deepcanon.data.suits import suits

AnyBaseline = Blueprint | type[BaselineMethod]
"""A baseline: an analytic density of the catalogue, or a method outside it."""

METHODS: tuple[type[BaselineMethod], ...] = (
    GradientBoosting,
    RandomForest,
    Neighbors,
    LogisticRegression,
    Ridge,
    ChosenMarkovChain,
    SeasonalNaive,
    ExponentialSmoothing,
    LabelPropagation,
    NodeFeatures,
    BagOfWords,
    CommonNeighbors,
    PreferentialAttachment,
    RatingBiases,
)
ANALYTIC = ("gaussian", "gaussian_mixture", "ppca")
"""The densities of the catalogue that are fitted in closed form, or by EM."""
MOST_FEATURES = 1024
"""Of more features they are left out by default: a covariance of all pairs would take long."""


def baselines_for(asked: str | Sequence[str], candidates: Sequence[Blueprint], data: Dataset[Any]) -> list[AnyBaseline]:
    """The baselines that are asked for: ``default``, ``none``, or names.

    By default they are all that suit: those that predict what some of the candidates predict, and the analytic
    densities where a candidate is a density of real values.
    """
    names = [asked] if isinstance(asked, str) else list(asked)
    if names == ["none"] or not names:
        return []
    taken = {candidate.label for candidate in candidates}
    models = {candidate.cls.name() for candidate in candidates}
    if names == ["default"]:
        analytic = [blueprint(name) for name in ANALYTIC if name not in taken] if _has_density(candidates, data) else []
        return [
            *(
                method
                for method in METHODS
                if method.name not in models and method.suits(data) and _wanted(method, candidates)
            ),
            *(each for each in analytic if _fits(each, data)),
        ]
    return [_named(name, data) for name in dict.fromkeys(names) if name not in taken]


def _named(name: str, data: Dataset[Any]) -> AnyBaseline:
    if name in ANALYTIC:
        return blueprint(name)
    method = next((method for method in METHODS if method.name == name), None)
    if method is None:
        suiting = [*(method.name for method in METHODS if method.suits(data)), *ANALYTIC, "none", "default"]
        raise unknown("baseline", name, suiting)
    if not method.suits(data):
        there = ", ".join(method.name for method in METHODS if method.suits(data)) or "none but the analytic densities"
        raise UsageError(f"the baseline {name} is not for the {data.kind} of {data.name}; there are: {there}")
    return method


def _wanted(method: type[BaselineMethod], candidates: Sequence[Blueprint]) -> bool:
    """Whether some candidate does what a baseline does: predicts, forecasts, or gives tokens their probabilities."""
    shared = [name for name in METHODS_OF_MODELS if hasattr(method, name)]
    return any(hasattr(candidate.cls, name) for candidate in candidates for name in shared)


def _has_density(candidates: Sequence[Blueprint], data: Dataset[Any]) -> bool:
    """Whether some candidate is a density of real values, given nothing, of few enough features."""
    if not isinstance(data.train, Batch) or data.sizes.get("features", MOST_FEATURES + 1) > MOST_FEATURES:
        return False
    for candidate in candidates:
        try:
            built = candidate.build(data.model_sizes, data.name)
        except DeepcanonError:
            continue
        if isinstance(built, HasLogProb) and built.support == "real" and not hasattr(built, "conditioned_on"):
            return True
    return False


def _fits(candidate: Blueprint, data: Dataset[Any]) -> bool:
    """Whether an analytic density can be built for these data."""
    try:
        candidate.build(data.model_sizes, data.name)
    except DeepcanonError:
        return False
    return suits(candidate, data)

"""Sentences on the health of a training: whether it beats its baseline, when it was best, which classes it misses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from deepcanon.core import AnyBatch, Model
from deepcanon.core.settings import Settings
from deepcanon.data import Dataset
from deepcanon.data.tables.table import target_unit
from deepcanon.train.baseline import fit_baseline
from deepcanon.train.evaluation import Assessment, assess, some_of_train
from deepcanon.train.observers import HIGHER_IS_BETTER, Watch
from deepcanon.train.scores import ClassScores

LONG = 0.8
"""The share of the training before which a best step was long ago."""

Scores = Mapping[str, float]


class BaselineScores(TypedDict):
    """A baseline by its name, with what it reaches on each split."""

    name: str
    train: dict[str, float]
    valid: dict[str, float]
    test: dict[str, float]


@dataclass(frozen=True)
class Examined:
    """All that is measured of a model: ``scores`` on each split, its baseline, each class, and what that comes to."""

    scores: dict[str, dict[str, float]]
    baseline: BaselineScores | None
    by_class: dict[str, list[ClassScores]]
    says: list[str]


def examine(
    model: Model[Any],
    splits: Mapping[str, AnyBatch | None],
    data: Dataset[Any] | None,
    settings: Settings,
    labels: Sequence[str] = (),
) -> Examined:
    """Measure a model on these splits, next to its baseline of the training ``data``, if they are there.

    ``labels`` are the names of the classes where the data are not there.
    """
    found = {
        name: assess(model, rows, seed=settings["seed"]) if rows is not None else Assessment({}, [])
        for name, rows in splits.items()
    }
    scores = {name: each.scores for name, each in found.items()}
    by_class = {name: each.by_class for name, each in found.items() if each.by_class}
    baseline = None if data is None else _baseline_scores(model, data, splits)
    split = held_out(scores)
    unit = target_unit(data.preprocessing) if data is not None and data.kind == "table" else None
    says = [
        *against_baseline(model.name(), scores, baseline, settings, unit),
        *missed_classes(by_class.get(split, []), labels if data is None else data.labels, split),
    ]
    return Examined(scores, baseline, by_class, says)


def examine_at_end(model: Model[Any], data: Dataset[Any], settings: Settings) -> Examined:
    """What a training measures at its end on all splits of its data; nothing, if it is not to be evaluated."""
    if not settings["evaluate"]:
        return Examined({"train": {}, "valid": {}, "test": {}}, None, {}, [])
    splits = {"train": some_of_train(data.train, settings), "valid": data.valid, "test": data.test}
    return examine(model, splits, data, settings)


def _baseline_scores(
    model: Model[Any], data: Dataset[Any], splits: Mapping[str, AnyBatch | None]
) -> BaselineScores | None:
    found = fit_baseline(model, data.train, data.sizes)
    if found is None:
        return None
    train, valid, test = (
        {} if (rows := splits.get(name)) is None or len(rows) == 0 else found.scores(rows)
        for name in ("train", "valid", "test")
    )
    return {"name": found.name, "train": train, "valid": valid, "test": test}


def held_out(scores: Mapping[str, Scores]) -> str:
    """The split that a result is judged by: the test split, or what there is."""
    return next((name for name in ("test", "valid", "train") if scores.get(name)), "train")


def judged_by(scores: Scores, baseline: Scores, settings: Settings) -> str | None:
    """The measure by which a model is compared with its baseline.

    With class weights the probabilities are not those of the data, so that they are not held to the likelihood.
    """
    weighted = settings["class_weight"] is not None
    names = ("balanced_accuracy",) if weighted else ("rmse", "nll", "accuracy")
    return next((name for name in names if name in scores and name in baseline), None)


def against_baseline(
    model: str,
    scores: Mapping[str, Scores],
    baseline: BaselineScores | None,
    settings: Settings,
    unit: tuple[str, float] | None = None,
) -> list[str]:
    """A sentence that compares a model with its baseline on held-out data, and says so where it is not better.

    Errors of a standardized target are given in its own ``unit``.
    """
    if baseline is None:
        return []
    split = held_out(scores)
    reached, plain = scores[split], dict(baseline)[split]
    assert isinstance(plain, dict)
    measure = judged_by(reached, plain, settings)
    if measure is None:
        return []
    value, other = reached[measure], plain[measure]
    words = f"{split} {measure} {value:.4g} against {other:.4g}"
    if measure == "rmse" and unit is not None:
        name, size = unit
        words = f"{split} rmse {value * size:.4g} against {other * size:.4g}, in the units of {name!r}"
    if beats(value, other, measure):
        return [f"{model} beats {baseline['name']}: {words}."]
    return [f"{model} does not beat {baseline['name']}: {words}; what it has learned is of no use on new data."]


def beats(value: float, baseline: float, measure: str) -> bool:
    """Whether a value is better than that of the baseline; one that is not a number is not.

    >>> beats(0.2, 0.3, "nll"), beats(float("nan"), 0.3, "nll")
    (True, False)
    """
    return value > baseline if measure in HIGHER_IS_BETTER else value < baseline


def overfitting(watch: Watch | None, steps: int) -> list[str]:
    """A sentence on a training that was best long before its end."""
    if watch is None or watch.best is None or watch.last is None or watch.best_step > LONG * steps:
        return []
    before, after = (f"{watch.sign * value:.4g}" for value in (watch.best, watch.last))
    if before == after:
        return []
    kept = f"the weights of step {watch.best_step:,} are kept" if watch.keep else "the last weights are kept"
    return [
        f"Validation {watch.name} was best at step {watch.best_step:,} of {steps:,} and "
        f"{'fell' if watch.sign > 0 else 'rose'} from {before} to {after} since; {kept}."
    ]


def missed_classes(classes: Sequence[ClassScores], labels: Sequence[str], split: str) -> list[str]:
    """A sentence for each class of which no example is found."""
    return [
        f"It finds none of the {each['examples']:,} {split} examples of the class {name!r}."
        for name, each in zip(labels or map(str, range(len(classes))), classes, strict=False)
        if each["examples"] and not each["found"]
    ]

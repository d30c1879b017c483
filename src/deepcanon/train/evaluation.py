"""Evaluation of a model: its metrics on a whole split."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from deepcanon.core import AnyBatch, Model, UsageError, eval_mode
from deepcanon.core.model import Evaluated
from deepcanon.core.settings import Settings
from deepcanon.data.dataset import Batches
from deepcanon.train.randomness import kept, seed_from, seed_torch
from deepcanon.train.scores import ClassScores, Collected, gather

MOST_EVALUATED = 2048
"""Of more training examples than these, a sample of so many is evaluated at the end."""

ROOT = "rmse"
"""The metric that is the root of a mean: over several batches it is the mean of squares that is taken."""


@dataclass(frozen=True)
class Assessment:
    """The measures of a model on one split: ``scores`` by name and, of a classifier, those of each class."""

    scores: dict[str, float]
    by_class: list[ClassScores]


def evaluate(
    model: Model[Any], split: AnyBatch, *, seed: int = 0, size: int = 1024, draws: int | None = None
) -> dict[str, float]:
    """The loss with its terms and the model's metrics, and the scores of its predictions, in evaluation mode.

    Terms and metrics are means over the split. The scores of predictions are those of all of them at once: of classes
    ``balanced_accuracy``, ``f1``, ``roc_auc`` and ``pr_auc``, of targets ``rmse`` and ``r2``.

    What is random in them is drawn anew from ``seed``; the caller's random states stay as they are. Of a bound whose
    draws scatter so far that few would lift it above the truth, few examples are gone through again and again until
    there are ``draws`` of them; the model says how many it needs. Next to a likelihood that is drawn stands its
    Monte-Carlo error, ``nll_error``: the standard deviation of its mean over the draws.

    >>> from deepcanon.core.toy import Toy
    >>> model, batch = Toy.example()
    >>> sorted(evaluate(model, batch))
    ['loss', 'nll']
    """
    return assess(model, split, seed=seed, size=size, draws=draws).scores


def assess(
    model: Model[Any],
    split: AnyBatch,
    *,
    seed: int = 0,
    size: int = 1024,
    draws: int | None = None,
    predictions: bool = True,
    likelihood: bool = True,
) -> Assessment:
    """What :func:`evaluate` measures, and the scores of each class; without ``predictions`` the means alone.

    Without ``likelihood`` one that is costly is left out.
    """
    given: Any = split
    if not isinstance(given, AnyBatch):
        raise UsageError(
            f"evaluate measures on one split of a data set, data.test for instance, got {type(given).__name__}"
        )
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    whole, collected, measures = split, Collected(), set[str]()
    draws = getattr(model, "least_draws", 1) if draws is None else draws
    brief = not likelihood and getattr(model, "costly_likelihood", False)
    if getattr(model, "likelihood_kind", "exact") == "lower bound" and 0 < len(split) < draws:
        split = split.part(torch.arange(len(split)).repeat(draws // len(split)))
    if getattr(model, "in_random_order", False) and len(split) > size:
        order = torch.randperm(len(split), generator=torch.Generator().manual_seed(seed_from(seed, "order")))
        split = split.part(order.to(split.device))
    with kept(), eval_mode(model):
        seed_torch(seed_from(seed, "evaluate"))
        for batch in Batches(split, size):
            weight = model.weight_of(batch)
            measured = weight if batch.metric_weight is None else batch.metric_weight
            terms, metrics, mean = Evaluated(model.loss(batch), {}) if brief else model.evaluated(batch)
            if mean is not None and whole is split:
                collected.add(batch, mean)
            measures.update(metrics)
            total = {"loss": torch.stack(list(terms.values())).sum()} if terms else {}
            of_loss = dict.fromkeys({**terms, **total}, weight)
            of_metrics = {name: len(batch) if name in model.per_example else measured for name in metrics}
            for name, value in {**terms, **total, **metrics}.items():
                share = {**of_loss, **of_metrics}[name]
                if share == 0:  # a mean over nothing says nothing
                    continue
                number = value.item()
                part = number**2 * share if name == ROOT else number * share
                sums[name] = sums.get(name, 0.0) + (part**2 if _is_error(name) else part)
                weights[name] = weights.get(name, 0.0) + share
        errors = _error_of_draws(model, split) if "nll" in measures else {}
        predicted = (collected.all() or gather(model, whole, size)) if predictions else None
    means = {name: (math.sqrt(value) if _is_error(name) else value) / weights[name] for name, value in sums.items()}
    scores = {name: math.sqrt(value) if name == ROOT else value for name, value in means.items()}
    if predicted is None:
        return Assessment({**scores, **errors}, [])
    return Assessment({**scores, **errors, **predicted.scores()}, predicted.by_class)


def _error_of_draws(model: Any, split: AnyBatch) -> dict[str, float]:
    """The Monte-Carlo error of a likelihood that is drawn; nothing where none is."""
    if not hasattr(model, "error_of_draws") or model.likelihood_kind not in ("lower bound", "estimate"):
        return {}
    return {"nll_error": model.error_of_draws(split, model.measured_samples).item()}


def some_of_train(train: AnyBatch, settings: Settings) -> AnyBatch:
    """The training examples that a result is measured on: a sample of bounded size, unless all are asked for."""
    return train if settings["evaluate_all"] else _at_most(train, MOST_EVALUATED, settings["seed"])


def first_that_count(model: Model[Any], valid: AnyBatch) -> AnyBatch:
    """The first two examples with something to measure, as words with a pair; the very first if there are none."""
    pairs = Batches(valid, 2)
    return next((pair for pair in pairs if model.weight_of(pair) > 0), next(iter(pairs)))


def some_of_valid(valid: AnyBatch, train: AnyBatch, settings: Settings) -> AnyBatch:
    """The validation examples that each epoch ends with: no more than it trains on, unless these are few."""
    return _at_most(valid, max(MOST_EVALUATED, len(train)), settings["seed"])


def _at_most(split: AnyBatch, most: int, seed: int) -> AnyBatch:
    """The split, or a sample of so many of its examples, always the same for a seed."""
    if len(split) <= most:
        return split
    generator = torch.Generator().manual_seed(seed_from(seed, "evaluated"))
    chosen = torch.randperm(len(split), generator=generator)[:most]
    return split.part(chosen.sort().values.to(split.device))


def _is_error(name: str) -> bool:
    """Whether a metric is the standard error of another one; those of independent draws add up by their squares."""
    return name.endswith("_error")

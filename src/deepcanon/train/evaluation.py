"""Evaluation of a model: its metrics on a whole split."""

from __future__ import annotations

import math
from typing import Any

import torch

from deepcanon.core import AnyBatch, Model, UsageError, eval_mode
from deepcanon.core.settings import Settings
from deepcanon.data.dataset import Batches
from deepcanon.train.randomness import kept, seed_from, seed_torch

MOST_EVALUATED = 2048
"""Of more training examples than these, a sample of so many is evaluated at the end."""

DRAWS = 4096
"""How many draws make the mean of a bound that is drawn at random."""
ROOT = "rmse"
"""The metric that is the root of a mean: over several batches it is the mean of squares that is taken."""


def evaluate(
    model: Model[Any], split: AnyBatch, *, seed: int = 0, size: int = 1024, draws: int = DRAWS
) -> dict[str, float]:
    """The loss with its terms and the model's metrics, means over the split, in evaluation mode.

    What is random in them is drawn anew from ``seed``; the caller's random states stay as they are. A lower bound on
    the likelihood is drawn for each example, by few draws: where examples are few, noise would lift it above the
    truth. So they are gone through again and again until there are ``draws`` of them. Next to a likelihood that is
    drawn stands its Monte-Carlo error, ``nll_error``: the standard deviation of its mean over the draws.

    >>> from deepcanon.core.toy import Toy
    >>> model, batch = Toy.example()
    >>> sorted(evaluate(model, batch))
    ['loss', 'nll']
    """
    given: Any = split
    if not isinstance(given, AnyBatch):
        raise UsageError(
            f"evaluate measures on one split of a data set, data.test for instance, got {type(given).__name__}"
        )
    sums: dict[str, float] = {}
    weights: dict[str, float] = {}
    if getattr(model, "likelihood_kind", "exact") == "lower bound" and 0 < len(split) < draws:
        split = split.part(torch.arange(len(split)).repeat(draws // len(split)))
    with kept(), eval_mode(model):
        seed_torch(seed_from(seed, "evaluate"))
        for batch in Batches(split, size):
            weight = model.weight_of(batch)
            measured = weight if batch.metric_weight is None else batch.metric_weight
            terms, metrics = model.loss_and_metrics(batch)
            total = {"loss": torch.stack(list(terms.values())).sum()} if terms else {}
            of_loss, of_metrics = dict.fromkeys({**terms, **total}, weight), dict.fromkeys(metrics, measured)
            for name, value in {**terms, **total, **metrics}.items():
                share = {**of_loss, **of_metrics}[name]
                if share == 0:  # a mean over nothing says nothing
                    continue
                number = value.item()
                part = number**2 * share if name == ROOT else number * share
                sums[name] = sums.get(name, 0.0) + (part**2 if _is_error(name) else part)
                weights[name] = weights.get(name, 0.0) + share
    means = {name: (math.sqrt(value) if _is_error(name) else value) / weights[name] for name, value in sums.items()}
    return {name: math.sqrt(value) if name == ROOT else value for name, value in means.items()}


def some_of_train(train: AnyBatch, settings: Settings) -> AnyBatch:
    """The training examples that a result is measured on: a sample of bounded size, unless all are asked for."""
    if settings["evaluate_all"] or len(train) <= MOST_EVALUATED:
        return train
    generator = torch.Generator().manual_seed(seed_from(settings["seed"], "evaluated"))
    chosen = torch.randperm(len(train), generator=generator)[:MOST_EVALUATED]
    return train.part(chosen.sort().values.to(train.device))


def _is_error(name: str) -> bool:
    """Whether a metric is the standard error of another one; those of independent draws add up by their squares."""
    return name.endswith("_error")

"""Evaluation of a model: its metrics on a whole split."""

from __future__ import annotations

from typing import Any

import torch

from deepcanon.core import AnyBatch, Model, UsageError, eval_mode
from deepcanon.data.dataset import batches
from deepcanon.train.randomness import kept, seed_from, seed_torch

DRAWS = 4096
"""How many draws make the mean of a bound that is drawn at random."""


def evaluate(
    model: Model[Any], split: AnyBatch, *, seed: int = 0, size: int = 1024, draws: int = DRAWS
) -> dict[str, float]:
    """The loss with its terms and the model's metrics, means over the split, in evaluation mode.

    What is random in them is drawn anew from ``seed``; the caller's random states stay as they are. A lower bound on
    the likelihood is drawn for each example, by few draws: where examples are few, noise would lift it above the
    truth. So they are gone through again and again until there are ``draws`` of them.

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
    if getattr(model, "likelihood_kind", "exact") == "lower bound" and 0 < len(split) < draws:
        split = split.part(torch.arange(len(split)).repeat(draws // len(split)))
    with kept(), eval_mode(model):
        seed_torch(seed_from(seed, "evaluate"))
        for batch in batches(split, size):
            terms = model.loss(batch)
            total = {"loss": torch.stack(list(terms.values())).sum()} if terms else {}
            for name, value in {**terms, **total, **model.metrics(batch)}.items():
                sums[name] = sums.get(name, 0.0) + value.item() * batch.weight
    return {name: value / max(split.weight, 1) for name, value in sums.items()}

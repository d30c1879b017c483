"""A model measured on a whole split."""

from __future__ import annotations

from typing import Any

import torch

from deepcanon.core import AnyBatch, Model, at_rest
from deepcanon.data.dataset import batches
from deepcanon.train.randomness import kept, seed_from, seed_torch


def evaluate(model: Model[Any], split: AnyBatch, *, seed: int = 0, size: int = 1024) -> dict[str, float]:
    """The loss with its terms and the model's metrics, means over the split, in evaluation mode.

    What is random in them is drawn anew from ``seed``; the caller's random states stay as they are.

    >>> from deepcanon.core.toy import Toy
    >>> model, batch = Toy.example()
    >>> sorted(evaluate(model, batch))
    ['loss', 'nll']
    """
    sums: dict[str, float] = {}
    with kept(), at_rest(model):
        seed_torch(seed_from(seed, "evaluate"))
        for batch in batches(split, size):
            terms = model.loss(batch)
            total = {"loss": torch.stack(list(terms.values())).sum()} if terms else {}
            for name, value in {**terms, **total, **model.metrics(batch)}.items():
                sums[name] = sums.get(name, 0.0) + value.item() * batch.weight
    return {name: value / max(split.weight, 1) for name, value in sums.items()}

"""A model of a given class, trained on a data set with a seed of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepcanon.core import Model
from deepcanon.core.spec import with_sizes
from deepcanon.data import Dataset
from deepcanon.train import fit
from deepcanon.train.randomness import kept, seed_from, seed_torch


def trained(
    cls: type[Model[Any]], data: Dataset[Any], seed: int, arguments: Mapping[str, Any] | None = None, **settings: Any
) -> Any:
    """Build the model with the sizes of the data and these arguments, and train it by its recipe and these settings."""
    with kept():
        seed_torch(seed_from(seed, cls.name()))
        model = cls(**with_sizes(cls, data.model_sizes, dict(arguments or {}), data.name))
    fit(model, data, quiet=True, seed=seed, **settings)
    return model.eval()

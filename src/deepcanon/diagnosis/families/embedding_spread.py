"""Embeddings of a model that learns without labels: how different those of different examples are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from deepcanon.core import AnyBatch, given_batch


def embeds(model: Any, batch: AnyBatch) -> bool:
    """Whether there are embeddings of examples: those of ``embeddings``, or one vector for each by ``encode``."""
    return embedded(model, batch) is not None


@torch.no_grad()
def embedded(model: Any, batch: AnyBatch) -> Tensor | None:
    """The embeddings of the examples, (B, width)."""
    x = getattr(batch, "unlabeled", batch.x)
    for name in ("embeddings", "encode"):
        method = getattr(given_batch(model, batch), name, None)
        if callable(method):
            try:
                found = method(x)
            except (RuntimeError, TypeError, ValueError):
                continue
            found = found[0] if isinstance(found, tuple) else found
            if isinstance(found, Tensor) and found.ndim == 2 and len(found) == len(x) and found.is_floating_point():
                return found.double()
    return None


def embedding_spread(rows: Tensor) -> dict[str, float]:
    """The spread of embeddings on the unit sphere, and how many dimensions they use.

    ``spread`` is the standard deviation of the normalized vectors, 1 where they point everywhere and 0 where all are
    one; ``dimensions`` the exponential of the entropy of the shares of the principal components (effective rank).

    References:
        | Exploring Simple Siamese Representation Learning (Chen and He, 2021), https://arxiv.org/abs/2011.10566
        | The effective rank (Roy and Vetterli, 2007), https://ieeexplore.ieee.org/document/7098875
    """
    unit = normalize(rows, dim=-1)
    spread = float((unit - unit.mean(0)).square().sum(1).mean().sqrt())
    shares = torch.linalg.svdvals(rows - rows.mean(0)).square()
    total = shares.sum()
    if float(total) <= 1e-12 * float(rows.square().sum() + 1e-30):
        return {"spread": spread, "dimensions": 0.0}
    shares = shares / total
    return {"spread": spread, "dimensions": float((-(shares * shares.clamp_min(1e-300).log()).sum()).exp())}


def learns_features(model: Any) -> bool:
    """Whether features are learned: ``embeddings`` of views, or ``encode`` under a loss that measures no fit."""
    if callable(getattr(model, "embeddings", None)):
        return True
    without_fit = bool(getattr(model, "surrogate", False)) and not hasattr(model, "log_prob")
    return without_fit and callable(getattr(model, "encode", None)) and not hasattr(model, "decode")

"""Generated text: whether it repeats itself, and what the model itself thinks of it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from deepcanon.core import AnyBatch, Sequences, given_batch

ROWS, STEPS = 16, 48
GRAM = 4
"""The length of the groups of tokens (n-grams) that are counted."""


def writes_text(model: Any, batch: AnyBatch) -> bool:
    """Whether it continues sequences of tokens and gives the log-probability of each token."""
    methods = all(callable(getattr(model, name, None)) for name in ("generate", "step_log_probs"))
    return methods and isinstance(batch, Sequences) and batch.x.ndim == 2 and not batch.x.is_floating_point()


@torch.no_grad()
def generated_text(model: Any, batch: AnyBatch) -> dict[str, float]:
    """How much continuations of real prompts repeat, and their nats per token, next to the real continuations.

    ``repeated`` is the share of groups of four tokens that a row has had before; ``kinds`` the entropy of the tokens in
    nats; ``exposure`` the nats per token of own text less those of real text.
    """
    length = batch.x.shape[1]
    prompt = max(1, min(8, length // 4))
    steps = min(STEPS, length - prompt)
    few = batch.select(torch.arange(min(ROWS, len(batch))))
    model = given_batch(model, few)
    generator = torch.Generator().manual_seed(0)
    own = model.generate(few.x[:, :prompt], steps, generator=generator)
    true = few.x[:, : prompt + steps]
    nats = [-model.step_log_probs(text)[:, prompt:].double().mean() for text in (own, true)]
    return {
        "repeated": repeated(own[:, prompt:]),
        "repeated_in_data": repeated(true[:, prompt:]),
        "kinds": _entropy(own[:, prompt:]),
        "kinds_in_data": _entropy(true[:, prompt:]),
        "exposure": float(nats[0] - nats[1]),
    }


def repeated(rows: Tensor) -> float:
    """The share of groups of tokens that their row has had before.

    >>> round(repeated(torch.tensor([[1, 2, 3, 4, 1, 2, 3, 4]])), 6)
    0.2
    """
    groups = [[tuple(row[i : i + GRAM]) for i in range(len(row) - GRAM + 1)] for row in rows.tolist()]
    total = sum(map(len, groups))
    return 1 - sum(len(set(row)) for row in groups) / total if total else 0.0


def _entropy(tokens: Tensor) -> float:
    share = torch.bincount(tokens.flatten()).double() / max(1, tokens.numel())
    return float(-(share * share.clamp_min(math.ulp(0.0)).log()).sum())

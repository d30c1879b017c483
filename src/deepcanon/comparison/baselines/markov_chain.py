"""The Markov chain of the order that is best on validation data."""

from __future__ import annotations

import math
from collections.abc import Generator as Parts
from typing import Any, Self

import torch
from torch import Tensor

from deepcanon.blueprints import blueprint
from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.core import Sequences
from deepcanon.data import Dataset

MOST_ORDER = 6
MOST_TOKENS = 2**22
"""Of more training tokens than these the first windows are counted."""


class ChosenMarkovChain(BaselineMethod):
    """The model ``markov_chain``, smoothed as Witten and Bell do, of the order that validation data choose."""

    name = "markov_chain"
    label = "Markov chain"
    likelihood_kind = "exact"

    def __init__(self, chain: Any, order: int) -> None:
        self.chain, self.order = chain, order

    @classmethod
    def suits(cls, data: Dataset[Any]) -> bool:
        return isinstance(data.train, Sequences) and "vocab" in data.sizes

    @classmethod
    def fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        train, vocab = data.train, data.sizes["vocab"]
        rows = max(1, MOST_TOKENS // train.x.shape[1])
        most = max(0, min(MOST_ORDER, int(62 / math.log2(max(2, vocab))) - 1))
        counted: Any = blueprint(cls.name).cls
        fitted = cls(counted.of(train.x[:rows].cpu(), train.lengths[:rows].cpu(), vocab, most), most)
        if data.valid is not None:
            found = fitted.chain.log_probs_by_order(data.valid.x.cpu(), data.valid.lengths.cpu())
            fitted.order = int(torch.stack([each.sum() for each in found]).argmax())
        yield fitted

    @property
    def choice(self) -> str:
        return f"order {self.order}"

    def step_log_probs(self, x: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        """The log-probability of each token given those before it, (B, T); of the first one and in the padding 0."""
        found = self.chain.log_probs_by_order(x.cpu(), None if lengths is None else lengths.cpu())
        chosen: Tensor = found[self.order]
        return chosen

    def log_prob(self, x: Tensor, *, lengths: Tensor | None = None) -> Tensor:
        """The log-probability of each sequence given its first token, (B,)."""
        return self.step_log_probs(x, lengths=lengths).sum(1)

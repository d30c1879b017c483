"""The choice of tokens that a masked language model predicts, and what it is shown in their place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from deepcanon.core.padding import valid_positions

MASKED, RANDOM = 0.8, 0.1
"""The shares of the chosen tokens that are masked, and that are replaced by random tokens; the others are left."""


class Masked(NamedTuple):
    """Rows with masked tokens, (B, T), and the chosen ones: their places and true tokens, (B, K), and which count."""

    shown: Tensor
    places: Tensor
    true: Tensor
    counted: Tensor


@dataclass(frozen=True)
class Masking:
    """A share of the tokens of each row, chosen at random; how many of them follows from the row alone.

    The tokens ``kept`` are never chosen. Of rows of unequal lengths some have fewer chosen tokens than K.

    References:
        | BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding (Devlin et al., 2019),
          https://arxiv.org/abs/1810.04805, section 3.1

    >>> Masking(0.15, mask_token=0, kept=(1,), vocab=9).counts(torch.full((2, 20), 5), torch.tensor([20, 4]))
    tensor([3, 1])
    """

    share: float
    mask_token: int
    kept: tuple[int, ...]
    vocab: int

    def counts(self, x: Tensor, lengths: Tensor) -> Tensor:
        """How many tokens of each row are chosen, (B,): a share of its length, at least one, if there are so many."""
        return torch.minimum(self._asked(lengths), self._eligible(x, lengths).sum(1))

    def draw(self, x: Tensor, lengths: Tensor) -> Masked:
        """Choose tokens and mask them."""
        order = torch.rand(x.shape, device=x.device).masked_fill(~self._eligible(x, lengths), 2.0)
        most = max(1, round(self.share * x.shape[1]))
        places = order.argsort(1)[:, :most]
        counted = torch.arange(places.shape[1], device=x.device) < self.counts(x, lengths).unsqueeze(1)
        true = x.gather(1, places)
        dice = torch.rand(true.shape, device=x.device)
        shown = torch.where(dice < MASKED + RANDOM, torch.randint_like(true, self.vocab), true)
        shown = torch.where(dice < MASKED, self.mask_token, shown)
        return Masked(x.scatter(1, places, torch.where(counted, shown, true)), places, true, counted)

    def _asked(self, lengths: Tensor) -> Tensor:
        return (self.share * lengths.double()).round().long().clamp_min(1)

    def _eligible(self, x: Tensor, lengths: Tensor) -> Tensor:
        inside = valid_positions(x, lengths)
        for token in self.kept:
            inside = inside & (x != token)
        return inside

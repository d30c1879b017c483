"""All sequences of a few tokens, written out, over which the probabilities of a model of sequences are summed."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deepcanon.laws.discrete import MOST

NO_TOKEN = -1


def affordable(vocab: int, most: int) -> int:
    """Over how many tokens all continuations can be written out."""
    return max(1, min(most, int(math.log(MOST) / math.log(vocab))))


def continuations(vocab: int, steps: int, begin: int) -> Tensor:
    """Every row of ``steps`` tokens after a first one."""
    every = torch.cartesian_prod(*[torch.arange(vocab)] * steps).reshape(-1, steps)
    return torch.cat([torch.full((len(every), 1), begin), every], 1)


def until(rows: Tensor, end: int) -> tuple[Tensor, Tensor]:
    """The different rows up to their first end token after the beginning, padded by -1, and their lengths."""
    ended = (rows[:, 1:] == end).long().cumsum(1)
    after = nn.functional.pad(ended[:, :-1], (2, 0)) > 0
    kept = rows.masked_fill(after, NO_TOKEN).unique(dim=0)
    return kept, (kept != NO_TOKEN).sum(1)

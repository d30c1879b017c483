"""What linear models of two classes share: one output, which is the lead of the second class."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import UsageError


def only_two(classes: int, model: str) -> None:
    """Refuse any number of classes but two."""
    if classes != 2:
        raise UsageError(f"{model} tells 2 classes apart (got {classes}); use softmax_regression for more")


def two_logits(lead: Tensor) -> Tensor:
    """The logits (B, 2) of two classes, of which the second leads by ``lead``, (B, 1), and the first is 0.

    >>> two_logits(torch.tensor([[3.0]]))
    tensor([[0., 3.]])
    """
    return torch.cat([torch.zeros_like(lead), lead], dim=1)

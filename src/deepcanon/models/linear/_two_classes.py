"""Binary classification by a linear model: one output, which is the logit of the second class."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import UsageError


def only_two(classes: int, model: str) -> None:
    """Refuse any number of classes but two."""
    if classes != 2:
        raise UsageError(f"{model} is a binary classifier (got {classes} classes); use softmax_regression for more")


def two_logits(logit: Tensor) -> Tensor:
    """The logits of two classes, (B, 2): 0 for the first, and ``logit``, (B, 1), for the second.

    >>> two_logits(torch.tensor([[3.0]]))
    tensor([[0., 3.]])
    """
    return torch.cat([torch.zeros_like(logit), logit], dim=1)

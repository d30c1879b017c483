"""Parts of semi-supervised methods that guess labels as probabilities: sharpening, MixUp, distribution alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Beta

from deepcanon.core import Model, SemiBatch, UsageError
from deepcanon.methods._layers import classes_of
from deepcanon.methods._semi_supervised import SemiSupervised

WINDOW = 128
"""The number of batches whose predictions a running average is over."""


def sharpened(shares: Tensor, temperature: float) -> Tensor:
    """Probabilities raised to the power 1 / temperature and normalized; towards 0 only the largest is left.

    >>> sharpened(torch.tensor([0.75, 0.25]), 0.5)
    tensor([0.9000, 0.1000])
    """
    return (shares.log() / temperature).softmax(-1)


def mixed_up(x: Tensor, targets: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """MixUp: each example and its target mixed with another one's, of which it stays the larger part.

    The share of the example itself is the larger of a Beta(alpha, alpha) number and its complement; the others are the
    same examples in random order.
    """
    both = torch.full((2,), alpha, dtype=x.dtype)
    beta = Beta(both[0], both[1], validate_args=False).sample((len(x),)).to(x.device)  # few numbers, on any device
    share = torch.maximum(beta, 1 - beta)
    other = torch.randperm(len(x), device=x.device)
    of_x = share.view(-1, *[1] * (x.ndim - 1))
    of_target = share.unsqueeze(1).to(targets)
    others, theirs = x.index_select(0, other), targets.index_select(0, other)
    return of_x * x + (1 - of_x) * others, of_target * targets + (1 - of_target) * theirs


class Alignment(nn.Module):
    """Distribution alignment: predictions are scaled so that on average they are distributed as the labels.

    Both distributions are buffers: that of the labels is counted once, that of the predictions is their mean over the
    last batches.
    """

    prior: Tensor
    recent: Tensor
    batches: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.register_buffer("prior", torch.full((classes,), 1 / classes))
        self.register_buffer("recent", torch.full((WINDOW, classes), 1 / classes))
        self.register_buffer("batches", torch.zeros((), dtype=torch.long))

    def count(self, labels: Tensor) -> None:
        """Take the distribution of the labels from those of the training data."""
        counts = torch.bincount(labels, minlength=len(self.prior)).to(self.prior)
        self.prior.copy_(counts / counts.sum())

    def forward(self, shares: Tensor) -> Tensor:
        """Aligned probabilities, (B, classes); in training they are remembered as well."""
        if self.training:
            self.recent[self.batches % WINDOW] = shares.mean(0).to(self.recent)
            self.batches += 1
        seen = self.recent[: int(self.batches.clamp(1, WINDOW))].mean(0)
        aligned = shares * (self.prior / seen.clamp_min(torch.finfo(seen.dtype).tiny)).to(shares)
        return aligned / aligned.sum(-1, keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)


class Aligned(SemiSupervised):
    """A semi-supervised method whose guessed labels are distributed as the given ones."""

    def __init__(self, model: Model[Any], weight: float, augment: Callable[[Tensor], Tensor] | None) -> None:
        super().__init__(model, weight, augment)
        classes = classes_of(model)
        if classes is None:
            raise UsageError(f"{self.name()} wraps a classifier; {model.name()} predicts real numbers")
        self.alignment = Alignment(classes).to(next(model.parameters()))

    def prepare(self, data: Iterable[SemiBatch]) -> None:
        self.alignment.count(torch.cat([batch.y for batch in data]))
        super().prepare(data)

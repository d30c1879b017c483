"""Rescaling of data to mean 0 and standard deviation 1, and back."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch


class Rescale(nn.Module):
    """A fixed affine map, ``scale * x + shift``, with one scale for all features; the identity until it is set."""

    scale: Tensor
    shift: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(1.0))
        self.register_buffer("shift", torch.zeros(features))

    def set(self, scale: Tensor, shift: Tensor) -> None:
        self.scale.copy_(scale)
        self.shift.copy_(shift)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x + self.shift

    def inverse(self, y: Tensor) -> Tensor:
        return (y - self.shift) / self.scale


@torch.no_grad()
def mean_and_std(data: Iterable[AnyBatch]) -> tuple[Tensor, Tensor]:
    """The mean of each feature, (features,), and one standard deviation around it over all features.

    >>> from deepcanon.core import Batch
    >>> mean, std = mean_and_std([Batch(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))])
    >>> mean.tolist(), round(std.item(), 4)
    ([2.0, 5.0], 0.7071)
    """
    parts = [batch.x.flatten(1).double() for batch in data]
    count = sum(len(x) for x in parts)
    mean = torch.stack([x.sum(0) for x in parts]).sum(0) / count
    square = torch.stack([(x - mean).square().mean(1).sum() for x in parts]).sum() / count
    return mean, square.sqrt()

"""Standardization of features to mean 0 and variance 1, as an invertible map with its log-determinant."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch

EPSILON = torch.finfo(torch.float32).eps
"""The relative standard deviation below which a feature counts as constant."""


class Standardize(nn.Module):
    r"""Standardization, :math:`z_d = (x_d - \mu_d) / \sigma_d`, as fixed by ``fit``; before, the identity.

    Log-densities change by :math:`\log |\det dz/dx| = -\sum_d \log \sigma_d`, which is ``log_det``. A constant feature
    keeps its scale.

    >>> from deepcanon.core import Batch
    >>> layer = Standardize(2)
    >>> layer.fit([Batch(torch.tensor([[1.0, 7.0], [5.0, 7.0]]))])
    >>> layer(torch.tensor([[5.0, 8.0]]))
    tensor([[1., 1.]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("std", torch.ones(features))

    @torch.no_grad()
    def fit(self, data: Iterable[AnyBatch]) -> None:
        """Take mean and standard deviation of the data, in double precision and one batch at a time."""
        count, mean, square = 0, torch.zeros(()), torch.zeros(())
        for batch in data:
            x = batch.x.flatten(1).double()
            count += len(x)
            step = x - mean
            mean = mean + step.sum(0) / count  # Welford's update, for a whole batch
            square = square + (step * (x - mean)).sum(0)
        std = (square / max(1, count)).sqrt()
        self.mean.copy_(mean)
        self.std.copy_(torch.where(std > EPSILON * mean.abs(), std, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std

    def inverse(self, z: Tensor) -> Tensor:
        return z * self.std + self.mean

    def log_det(self) -> Tensor:
        """The log-determinant of the Jacobian of ``forward``, the same for all examples: a 0-d tensor."""
        return -self.std.log().sum()

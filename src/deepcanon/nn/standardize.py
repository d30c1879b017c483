"""Every feature brought to mean 0 and variance 1, as an invertible map whose volume is accounted for."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from deepcanon.core import Batch

EPSILON = torch.finfo(torch.float32).eps
"""What differs by less than this share of its size is taken not to vary."""


class Standardize(nn.Module):
    r"""The map :math:`z_d = (x_d - m_d) / \sigma_d` with fixed m and σ; the identity until ``fit`` has seen data.

    Densities change by :math:`\log |\det dz/dx| = -\sum_d \log \sigma_d`, which is ``log_det``. A feature that never
    varies keeps its unit.

    >>> layer = Standardize(2)
    >>> layer.fit([Batch(torch.tensor([[1.0, 7.0], [5.0, 7.0]]))])
    >>> layer(torch.tensor([[5.0, 8.0]]))
    tensor([[1., 1.]])
    """

    center: Tensor
    spread: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("center", torch.zeros(features))
        self.register_buffer("spread", torch.ones(features))

    @torch.no_grad()
    def fit(self, data: Iterable[Batch]) -> None:
        """Take center and spread of the data, in double precision and one batch at a time."""
        count, mean, square = 0, torch.zeros(()), torch.zeros(())
        for batch in data:
            x = batch.x.flatten(1).double()
            count += len(x)
            step = x - mean
            mean = mean + step.sum(0) / count  # Welford's update, for a whole batch
            square = square + (step * (x - mean)).sum(0)
        spread = (square / max(1, count)).sqrt()
        self.center.copy_(mean)
        self.spread.copy_(torch.where(spread > EPSILON * mean.abs(), spread, 1.0))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.center) / self.spread

    def inverse(self, z: Tensor) -> Tensor:
        return z * self.spread + self.center

    def log_det(self) -> Tensor:
        """The logarithm of the volume change of ``forward``, the same for all examples: a 0-d tensor."""
        return -self.spread.log().sum()

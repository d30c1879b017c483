"""Gaussian with full covariance."""

from __future__ import annotations

from typing import Self

import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, Recipe
from deepcanon.models.analytic._analytic import PRECISION, Moments, cholesky, log_normal, standard_normal


class Gaussian(Moments):
    r"""The multivariate Gaussian of maximum likelihood: it has the mean and the covariance of the data.

    Also known as: multivariate normal distribution, full-covariance Gaussian.

    .. math:: \log p(x) = -\tfrac12 (x - \mu)^\top \Sigma^{-1} (x - \mu) - \tfrac12 \log \det 2 \pi \Sigma \qquad (1)

    .. math:: \mu = \frac1N \sum_n x_n, \qquad
              \Sigma = \frac1N \sum_n (x_n - \mu)(x_n - \mu)^\top + \epsilon I \qquad (2)

    One epoch fits it exactly, whatever the size of the batches; a second one changes nothing. Where a feature hardly
    varies the density is high for no deeper reason, so densities of images are compared on dequantized values.

    References:
        | Pattern Recognition and Machine Learning (Bishop, 2006), section 2.3.4

    Arguments:
        features: The dimension of the data.
        regularization: The :math:`\epsilon` that is added to the variances.
    """

    recipe = Recipe(epochs=1, batch_size=8192)

    factor: Tensor

    def __init__(self, features: int, regularization: float = 1e-6) -> None:
        super().__init__(features, regularization)
        self.register_buffer("factor", torch.eye(features, dtype=PRECISION))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        return cls(features=3), Batch(x.cumsum(1) + 1)

    def solve(self) -> None:
        self.factor.copy_(cholesky(self.covariance, self.regularization))  # eq. (2)

    def density(self, x: Tensor) -> Tensor:
        return log_normal(x, self.mean, self.factor)  # eq. (1)

    def draws(self, n: int, generator: Generator | None) -> Tensor:
        return self.mean + standard_normal(n, self.features, self.mean, generator) @ self.factor.T

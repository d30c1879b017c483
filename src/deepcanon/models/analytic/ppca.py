"""Probabilistic principal component analysis (PPCA)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution, Independent, Normal

from deepcanon.core import Batch, Recipe, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.analytic._analytic import PRECISION, Moments, standard_normal


class PPCA(Moments):
    r"""A linear Gaussian latent-variable model with isotropic noise, fitted in closed form.

    Also known as: probabilistic PCA, sensible PCA.

    .. math:: p(z) = N(0, I), \qquad p(x \mid z) = N(W z + \mu, \sigma^2 I), \qquad
              p(x) = N(\mu, C), \quad C = W W^\top + \sigma^2 I \qquad (1)

    Its maximum-likelihood parameters follow from the eigenvectors :math:`u_j` and the eigenvalues
    :math:`\lambda_1 \ge \dots \ge \lambda_D` of the covariance of the data; the first :math:`q` are kept:

    .. math:: \sigma^2 = \frac{1}{D - q} \sum_{j > q} \lambda_j, \qquad
              W = U_q (\Lambda_q - \sigma^2 I)^{1/2} \qquad (2)

    .. math:: p(z \mid x) = N(\Lambda_q^{-1} W^\top (x - \mu), \; \sigma^2 \Lambda_q^{-1}) \qquad (3)

    W is determined up to a rotation of z; with this one the coordinates of the posterior (3) are independent. One epoch
    fits it exactly, whatever the size of the batches. As the noise vanishes this is PCA.

    What noise is isotropic depends on the units of the features: where the columns of a table were standardized, the
    model is one of the columns as they were given, and its parameters are in these units, divided by a common one.

    References:
        | Probabilistic Principal Component Analysis (Tipping and Bishop, 1999),
          https://doi.org/10.1111/1467-9868.00196

    Arguments:
        features: The dimension :math:`D` of the data.
        latent: The dimension :math:`q` of the code :math:`z`, below ``features``; by default 8, or one less than
            ``features`` if that is smaller.
        regularization: What is added to the variances: to all :math:`\lambda_j`, hence to :math:`\sigma^2`.
    """

    recipe = Recipe(epochs=1, batch_size=8192)

    units: Tensor
    directions: Tensor
    variances: Tensor
    noise: Tensor

    def __init__(self, features: int, latent: int | None = None, regularization: float = 1e-6) -> None:
        super().__init__(features, regularization)
        at_least(2, features=features)
        self.latent = min(8, features - 1) if latent is None else latent
        at_least(1, latent=self.latent)
        if self.latent >= features:
            raise UsageError(f"latent must be below features, {features} (got {latent}); with all it is a gaussian")
        self.register_buffer("units", torch.ones(features, dtype=PRECISION))
        self.register_buffer("directions", torch.eye(features, self.latent, dtype=PRECISION))  # U
        self.register_buffer("variances", torch.ones(self.latent, dtype=PRECISION))  # the eigenvalues that are kept
        self.register_buffer("noise", torch.tensor(1.0, dtype=PRECISION))  # the variance of the noise

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=2), Batch(x.cumsum(1) + 1)

    def prepare(self, data: Iterable[Batch]) -> None:
        """Take the units of the features as they were given, up to a common one, which the model does not depend on."""
        super().prepare(data)
        if self.feature_scales:
            scales = self.units.new_tensor(self.feature_scales)
            # By the smallest, next to whose variance the regularization must stay small; else it would be the noise.
            self.units.copy_(scales / scales.min())

    @property
    def weight(self) -> Tensor:
        """The matrix W, (features, latent)."""
        return self.directions * (self.variances - self.noise).clamp_min(0).sqrt()  # eq. (2)

    def solve(self) -> None:
        values, vectors = torch.linalg.eigh(self.covariance)  # in ascending order
        values = values.clamp_min(0) + self.regularization
        kept, dropped = values[-self.latent :].flip(0), values[: -self.latent]
        directions = vectors[:, -self.latent :].flip(1)
        # The sign of an eigenvector is arbitrary: the largest entry is made positive.
        largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
        self.directions.copy_(directions * largest.sign())
        self.variances.copy_(kept)
        self.noise.copy_(dropped.mean())  # eq. (2)

    def density(self, x: Tensor) -> Tensor:
        centered = x - self.mean
        along = centered @ self.directions  # (B, latent)
        across = centered - along @ self.directions.T  # (B, features)
        square = (along.square() / self.variances).sum(-1) + across.square().sum(-1) / self.noise
        log_det = self.variances.log().sum() + (self.features - self.latent) * self.noise.log()
        return -0.5 * (square + log_det + self.features * math.log(2 * math.pi))  # eq. (1) in the basis of U

    def draws(self, n: int, generator: Generator | None) -> Tensor:
        z = standard_normal(n, self.latent, self.mean, generator)
        return self._mean(z) + self.noise.sqrt() * standard_normal(n, self.features, self.mean, generator)

    def encode(self, x: Tensor) -> Distribution:
        """The exact posterior p(z | x) of each example."""
        mean = (self._rows(x) - self.mean) @ self.weight / self.variances  # eq. (3)
        scale = (self.noise / self.variances).sqrt().expand_as(mean)
        return Independent(Normal(mean.to(x.dtype), scale.to(x.dtype), validate_args=False), 1, validate_args=False)

    def decode(self, z: Tensor) -> Distribution:
        """The likelihood p(x | z) of the examples, flat, at latent codes of any leading shape."""
        mean, scale = self._mean(z) / self.units, self.noise.sqrt() / self.units
        return Independent(Normal(mean.to(z.dtype), scale.to(z.dtype), validate_args=False), 1, validate_args=False)

    def prior(self) -> Distribution:
        """The prior p(z) of the latent codes."""
        zeros = torch.zeros(self.latent, dtype=torch.get_default_dtype(), device=self.mean.device)
        return Independent(Normal(zeros, torch.ones_like(zeros), validate_args=False), 1, validate_args=False)

    def reconstruct(self, x: Tensor) -> Tensor:
        """The mean of p(x | z) where z is the posterior's mean, in the shape of ``x``."""
        return self.decode(self.encode(x).mean).mean.reshape(x.shape)

    def forward(self, x: Tensor) -> Tensor:
        """The reconstruction from the mean of the code, flat: (B, features)."""
        return self.reconstruct(x.flatten(1))

    def _rows(self, x: Tensor) -> Tensor:
        return super()._rows(x) * self.units

    def _log_prob(self, x: Tensor) -> Tensor:
        return (self.density(self._rows(x)) + self.units.log().sum()).to(x.dtype)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        return (self.draws(n, generator) / self.units).to(torch.get_default_dtype())

    def _mean(self, z: Tensor) -> Tensor:
        return z.to(PRECISION) @ self.weight.T + self.mean  # of p(x | z), eq. (1)

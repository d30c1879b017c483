"""Density models without gradient descent: exact log-densities, and moments that are accumulated batch by batch.

All numbers are kept in double precision: a covariance of many features is often nearly singular, and its Cholesky
factor in single precision would be noise or would not exist.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from deepcanon.core import Absorb, Batch, DataError, RealDensity, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, flat

PRECISION = torch.float64


class Analytic(RealDensity[Batch]):
    """A density of real values that is fitted without gradients: a leaf gives ``absorb``, ``density`` and ``draws``.

    ``regularization`` is added to the variances, so that the density stays finite where features are constant or
    collinear.
    """

    def __init__(self, features: int, regularization: float) -> None:
        super().__init__()
        at_least(1, features=features)
        if not regularization >= 0:
            raise UsageError(f"regularization is added to the variances and must be 0 or more (got {regularization})")
        self.features = features
        self.regularization = regularization

    @abstractmethod
    def absorb(self, batch: Batch) -> Terms | None:
        """Learn from a batch; the returned terms are logged."""

    @abstractmethod
    def density(self, x: Tensor) -> Tensor:
        """The log-density of each row of x, (B, features), in double precision: (B,)."""

    @abstractmethod
    def draws(self, n: int, generator: Generator | None) -> Tensor:
        """Samples in double precision, (n, features)."""

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Absorb(self.absorb)]

    def _log_prob(self, x: Tensor) -> Tensor:
        return self.density(self._rows(x)).to(x.dtype)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        return self.draws(n, generator).to(torch.get_default_dtype())

    def _rows(self, x: Tensor) -> Tensor:
        return flat(x, self.features).to(PRECISION)


class Moments(Analytic):
    r"""A density fitted by the mean and the covariance of the data; a leaf computes its parameters in ``solve``.

    The moments of the n examples seen so far and of m new ones are merged exactly, so that the batches of an epoch, in
    any order and of any size, give what all examples at once would give, and a second epoch changes nothing.

    .. math:: \mu = \frac{n \mu_n + m \mu_m}{n + m}, \qquad \Sigma = \frac{n \Sigma_n + m \Sigma_m}{n + m}
              + \frac{n m}{(n + m)^2} (\mu_m - \mu_n)(\mu_m - \mu_n)^\top \qquad (1)

    References:
        | Algorithms for computing the sample variance: analysis and recommendations (Chan et al., 1983),
          https://doi.org/10.1080/00031305.1983.10483115
    """

    count: Tensor
    mean: Tensor
    covariance: Tensor

    def __init__(self, features: int, regularization: float) -> None:
        super().__init__(features, regularization)
        self.register_buffer("count", torch.tensor(0.0, dtype=PRECISION))
        self.register_buffer("mean", torch.zeros(features, dtype=PRECISION))
        self.register_buffer("covariance", torch.eye(features, dtype=PRECISION))

    @abstractmethod
    def solve(self) -> None:
        """Compute the parameters of the density from ``mean`` and ``covariance``."""

    @torch.no_grad()
    def absorb(self, batch: Batch) -> None:
        """Merge the moments of a batch into those of the examples seen so far."""
        x = self._rows(batch.x)
        mean = x.mean(0)
        share = len(x) / (self.count + len(x))
        step = mean - self.mean
        covariance = (x - mean).T @ (x - mean) / len(x)
        self.covariance += share * (covariance - self.covariance) + share * (1 - share) * torch.outer(step, step)
        self.mean += share * step  # eq. (1), both with share = m / (n + m)
        self.count += len(x)
        self.solve()


def cholesky(covariance: Tensor, regularization: float) -> Tensor:
    """The lower Cholesky factor L of covariances (..., D, D) with ``regularization`` added to their diagonals."""
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(covariance + regularization * eye)
    if bool(info.any()):
        raise DataError(
            f"the covariance is singular with regularization={regularization:g}: features are constant or collinear; "
            "use a larger regularization"
        )
    return factor


def log_normal(x: Tensor, mean: Tensor, factor: Tensor) -> Tensor:
    """The Gaussian log-density of rows x (B, D), for means (..., D) and Cholesky factors (..., D, D): (..., B)."""
    centered = (x - mean.unsqueeze(-2)).mT  # (..., D, B)
    white: Tensor = torch.linalg.solve_triangular(factor, centered, upper=False)
    log_det: Tensor = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
    return -0.5 * (white.square().sum(-2) + mean.shape[-1] * math.log(2 * math.pi)) - log_det


def standard_normal(n: int, size: int, like: Tensor, generator: Generator | None) -> Tensor:
    """Standard normal noise, (n, size), of the type and on the device of ``like``."""
    return torch.randn(n, size, generator=generator, dtype=like.dtype, device=like.device)

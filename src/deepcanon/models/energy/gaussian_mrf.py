"""Gaussian Markov random field (GMRF)."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, Recipe, UsageError
from deepcanon.core.checks import flat
from deepcanon.models.analytic._analytic import PRECISION, Moments, standard_normal


class GaussianMRF(Moments):
    r"""A Gaussian by its precision matrix, in which a zero means that two features have no direct dependence.

    Also known as: Gaussian graphical model, covariance selection model, graphical lasso.

    .. math:: E(x) = \tfrac12 (x - \mu)^\top Q (x - \mu), \qquad p(x) = e^{-E(x)} / Z, \quad
              Z = \sqrt{(2 \pi)^D / \det Q} \qquad (1)

    Q is the inverse of the covariance. Given all others, a feature depends on its neighbors only, those j with
    :math:`Q_{ij} \ne 0`.

    .. math:: E[x_i \mid \text{others}] = \mu_i - \frac{1}{Q_{ii}} \sum_{j \ne i} Q_{ij} (x_j - \mu_j), \qquad
              \operatorname{Var}[x_i \mid \text{others}] = 1 / Q_{ii} \qquad (2)

    The same for several features m that are missing, given those o that are there:

    .. math:: E[x_m \mid x_o] = \mu_m - Q_{mm}^{-1} Q_{mo} (x_o - \mu_o) \qquad (3)

    Q is fitted by the graphical lasso to the correlations R of the data, with a penalty that sets the weakest partial
    correlations to zero; without a penalty it is the inverse of the covariance.

    .. math:: \min_\Theta \; \operatorname{tr}(R \Theta) - \log \det \Theta + \lambda \sum_{i \ne j} |\Theta_{ij}|,
              \qquad Q = \operatorname{diag}(\sigma)^{-1} \Theta \operatorname{diag}(\sigma)^{-1} \qquad (4)

    It is convex, and solved by the alternating direction method of multipliers. One epoch fits the field.

    References:
        | Covariance Selection (Dempster, 1972), https://doi.org/10.2307/2528966
        | Sparse inverse covariance estimation with the graphical lasso (Friedman et al., 2008),
          https://doi.org/10.1093/biostatistics/kxm045
        | Distributed Optimization and Statistical Learning via the Alternating Direction Method of Multipliers
          (Boyd et al., 2011), section 6.5, https://doi.org/10.1561/2200000016

    Arguments:
        features: The dimension of the data.
        penalty: The :math:`\lambda` of the graphical lasso, from 0; at 1 all features are independent.
        regularization: What is added to the variances.
    """

    recipe = Recipe(epochs=1, batch_size=8192)

    STEPS = 2000
    """The most steps in which (4) is solved."""
    TOLERANCE = 1e-7
    """How far the largest entry may still move, and differ from its sparse copy, when the solution is taken."""

    precision: Tensor

    def __init__(self, features: int, penalty: float = 0.02, regularization: float = 1e-6) -> None:
        super().__init__(features, regularization)
        if not 0 <= penalty <= 1:
            raise UsageError(f"penalty is that of correlations, from 0 to 1 (got {penalty:g})")
        self.penalty = penalty
        self.register_buffer("precision", torch.eye(features, dtype=PRECISION))  # Q

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))
        return cls(features=3), Batch(x.cumsum(1) + 1)

    def solve(self) -> None:
        std = (self.covariance.diagonal() + self.regularization).sqrt()
        scale = torch.outer(std, std)
        correlation = (self.covariance + self.regularization * torch.eye(self.features).to(scale)) / scale
        self.precision.copy_(self._lasso(correlation) / scale)  # eq. (4)

    def _lasso(self, correlation: Tensor) -> Tensor:
        """The precision matrix of the graphical lasso."""
        if self.penalty == 0:
            inverse: Tensor = torch.linalg.inv(correlation)
            return inverse
        lasso = self.penalty * (1 - torch.eye(self.features).to(correlation))
        sparse, dual, rate = torch.eye(self.features).to(correlation), torch.zeros_like(correlation), 1.0
        for _ in range(self.STEPS):
            values, vectors = torch.linalg.eigh(rate * (sparse - dual) - correlation)
            values = (values + (values.square() + 4 * rate).sqrt()) / (2 * rate)  # those of Theta, all positive
            dense = vectors * values @ vectors.T
            before, wanted = sparse, dense + dual
            sparse = wanted.sign() * (wanted.abs() - lasso / rate).clamp_min(0)
            dual = wanted - sparse
            gap, step = (dense - sparse).norm(), rate * (sparse - before).norm()
            if max(gap, step) < self.TOLERANCE * self.features:
                break
            factor = 2.0 if gap > 10 * step else 0.5 if step > 10 * gap else 1.0
            rate, dual = rate * factor, dual / factor
        return sparse

    @property
    def edges(self) -> Tensor:
        """The pairs of features that depend on each other given all others, (count, 2), the first the lower one."""
        return self.precision.triu(1).nonzero()

    @property
    def partial_correlations(self) -> Tensor:
        """The correlations of each two features given all others, (features, features), with ones on the diagonal."""
        std = self.precision.diagonal().rsqrt()
        return (-self.precision * torch.outer(std, std)).fill_diagonal_(1)

    def energy(self, x: Tensor) -> Tensor:
        """The energy E of each example, (B,)."""
        centered = self._rows(x) - self.mean
        return (0.5 * (centered @ self.precision * centered).sum(1)).to(x.dtype)  # eq. (1)

    def density(self, x: Tensor) -> Tensor:
        centered = x - self.mean
        log_det = torch.linalg.slogdet(self.precision).logabsdet
        log_z = 0.5 * (self.features * math.log(2 * math.pi) - log_det)
        found: Tensor = -0.5 * (centered @ self.precision * centered).sum(1) - log_z  # eq. (1)
        return found

    def draws(self, n: int, generator: Generator | None) -> Tensor:
        factor = torch.linalg.cholesky(self.precision)  # Q = L L', so that L'^-1 z has the covariance of Q^-1
        noise = standard_normal(n, self.features, self.mean, generator)
        centered: Tensor = torch.linalg.solve_triangular(factor.T, noise.T, upper=True).T
        return self.mean + centered

    def reconstruct(self, x: Tensor) -> Tensor:
        """The mean of each feature given all others, in the shape of ``x``."""
        centered = self._rows(x) - self.mean
        pull = centered @ self.precision / self.precision.diagonal()  # of the feature itself as well
        return (self.mean + centered - pull).to(x.dtype).reshape(x.shape)  # eq. (2)

    @torch.no_grad()
    def complete(self, x: Tensor) -> Tensor:
        """The examples with each entry that is NaN replaced by its mean given those that are there."""
        rows = flat(x, self.features).to(PRECISION).clone()
        for row in rows:
            missing = row.isnan()
            blocks, there = self.precision[missing], row[~missing] - self.mean[~missing]
            pull = torch.linalg.solve(blocks[:, missing], blocks[:, ~missing] @ there)
            row[missing] = self.mean[missing] - pull  # eq. (3)
        return rows.to(x.dtype).reshape(x.shape)

"""Gaussian mixture model (GMM)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, DataError, Recipe, Terms
from deepcanon.core.checks import at_least
from deepcanon.models.analytic._analytic import PRECISION, Analytic, cholesky, log_normal, standard_normal

TINY = 10 * torch.finfo(PRECISION).eps
"""A small mass that keeps a component without examples from dividing by zero."""


class GaussianMixture(Analytic):
    r"""A mixture of Gaussians with full covariances, fitted by expectation maximization (EM).

    Also known as: mixture of Gaussians, MoG.

    .. math:: p(x) = \sum_k \pi_k N(x; \mu_k, \Sigma_k), \qquad
              r_{nk} = \frac{\pi_k N(x_n; \mu_k, \Sigma_k)}{\sum_j \pi_j N(x_n; \mu_j, \Sigma_j)} \qquad (1)

    .. math:: N_k = \sum_n r_{nk}, \quad \pi_k = \frac{N_k}{N}, \quad \mu_k = \frac1{N_k} \sum_n r_{nk} x_n, \quad
              \Sigma_k = \frac1{N_k} \sum_n r_{nk} (x_n - \mu_k)(x_n - \mu_k)^\top + \epsilon I \qquad (2)

    An epoch is one iteration of EM: (1) is the E-step, which gives the responsibilities :math:`r_{nk}`, and (2) the
    M-step. Its sums are accumulated batch by batch, and the parameters change when all examples have been seen, so the
    size of the batches does not matter. But for :math:`\epsilon` no iteration lowers the likelihood. The initial
    components are the clusters of k-means, which is itself initialized by k-means++.

    References:
        | Maximum Likelihood from Incomplete Data via the EM Algorithm (Dempster et al., 1977),
          https://doi.org/10.1111/j.2517-6161.1977.tb01600.x
        | k-means++: The Advantages of Careful Seeding (Arthur and Vassilvitskii, 2007),
          https://theory.stanford.edu/~sergei/papers/kMeansPP-soda.pdf

    Arguments:
        features: The dimension of the data.
        components: The number of Gaussians.
        regularization: The :math:`\epsilon` that is added to the variances.
    """

    recipe = Recipe(epochs=50, batch_size=1024)

    weights: Tensor
    means: Tensor
    factors: Tensor
    examples: Tensor
    seen: Tensor
    mass: Tensor
    first: Tensor
    second: Tensor

    def __init__(self, features: int, components: int = 10, regularization: float = 1e-6) -> None:
        super().__init__(features, regularization)
        at_least(1, components=components)
        self.components = components
        eye = torch.eye(features, dtype=PRECISION).repeat(components, 1, 1)
        self.register_buffer("weights", torch.full((components,), 1 / components, dtype=PRECISION))
        self.register_buffer("means", torch.zeros(components, features, dtype=PRECISION))
        self.register_buffer("factors", eye)  # Cholesky factors of the covariances, L L'
        # The sums of an epoch. Those of x are taken around the current means, which loses no digits.
        self.register_buffer("examples", torch.tensor(0))
        self.register_buffer("seen", torch.tensor(0))
        self.register_buffer("mass", torch.zeros(components, dtype=PRECISION))
        self.register_buffer("first", torch.zeros(components, features, dtype=PRECISION))
        self.register_buffer("second", torch.zeros_like(eye))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(48, 2, generator=torch.Generator().manual_seed(0))
        return cls(features=2, components=3), Batch(x + 4 * (torch.arange(48) % 3).unsqueeze(1))

    @property
    def covariances(self) -> Tensor:
        """The covariances, (components, features, features)."""
        return self.factors @ self.factors.mT

    @torch.no_grad()
    def start(self, weights: Tensor, means: Tensor, covariances: Tensor) -> None:
        """Set the initial parameters, in place of those that ``prepare`` has found."""
        self.weights.copy_(weights)
        self.means.copy_(means)
        self.factors.copy_(cholesky(covariances.to(self.factors), 0.0))

    @torch.no_grad()
    def prepare(self, data: Iterable[Batch]) -> None:
        """Count the examples, and initialize the components with the clusters of k-means."""
        parts = [self._rows(batch.x) for batch in self.checked(data)]
        x = torch.cat(parts)
        if len(x) < self.components:
            raise DataError(f"{self.components} components need as many examples, got {len(x)}; use fewer components")
        self.examples.fill_(len(x))
        self._forget()
        self.means.copy_(_k_means(x, self.components))
        for part in parts:
            nearest = torch.cdist(part, self.means).argmin(1)
            self._gather(part, torch.nn.functional.one_hot(nearest, self.components).to(PRECISION))
        self._maximize()

    @torch.no_grad()
    def absorb(self, batch: Batch) -> Terms:
        """The E-step of a batch, followed by the M-step once every example was seen."""
        x = self._rows(batch.x)
        joint = self._joint(x)
        self._gather(x, joint.softmax(-1))  # r of eq. (1)
        if self.seen >= self.examples:
            self._maximize()
        return {"nll": -joint.logsumexp(-1).mean().to(batch.x.dtype)}

    def responsibilities(self, x: Tensor) -> Tensor:
        """The posterior probability of each component for each example, (B, components)."""
        return self._joint(self._rows(x)).softmax(-1).to(x.dtype)  # eq. (1)

    def density(self, x: Tensor) -> Tensor:
        return self._joint(x).logsumexp(-1)  # log p(x) of eq. (1)

    def draws(self, n: int, generator: Generator | None) -> Tensor:
        chosen = torch.multinomial(self.weights, max(1, n), replacement=True, generator=generator)[:n]
        noise = standard_normal(n, self.features, self.means, generator)
        samples = self.means[chosen]
        for k in range(self.components):  # one factor at a time: a factor for each sample would need much memory
            samples = torch.where((chosen == k).unsqueeze(1), samples + noise @ self.factors[k].T, samples)
        return samples

    def _joint(self, x: Tensor) -> Tensor:
        """The log joint probability of x and each component, (B, components)."""
        return log_normal(x, self.means, self.factors).T + self.weights.log()

    def _gather(self, x: Tensor, responsibilities: Tensor) -> None:
        centered = x - self.means.unsqueeze(1)  # (components, B, features)
        weighted = responsibilities.T.unsqueeze(-1) * centered
        self.mass += responsibilities.sum(0)
        self.first += weighted.sum(1)
        self.second += weighted.mT @ centered
        self.seen += len(x)

    def _maximize(self) -> None:
        mass = (self.mass + TINY).unsqueeze(-1)  # (components, 1)
        step = self.first / mass
        covariances = self.second / mass.unsqueeze(-1) - step.unsqueeze(-1) * step.unsqueeze(-2)
        self.factors.copy_(cholesky(covariances, self.regularization))  # eq. (2)
        self.means += step  # eq. (2)
        self.weights.copy_(mass.squeeze(-1) / mass.sum())  # eq. (2)
        self._forget()

    def _forget(self) -> None:
        """Reset the sums of an epoch."""
        for total in (self.mass, self.first, self.second, self.seen):
            total.zero_()


def _k_means(x: Tensor, count: int, rounds: int = 100) -> Tensor:
    """Cluster centers (count, features) by Lloyd's algorithm, initialized by k-means++."""
    centers = x[torch.randint(len(x), (1,), device=x.device)]
    for _ in range(count - 1):
        distance = torch.cdist(x, centers).amin(1).square()
        # Where all examples coincide with a center, any of them will do.
        weight = torch.where(distance.sum() > 0, distance, torch.ones_like(distance))
        centers = torch.cat([centers, x[_drawn(weight)]])
    nearest = torch.full((len(x),), -1, device=x.device)
    for _ in range(rounds):
        before, nearest = nearest, torch.cdist(x, centers).argmin(1)
        if torch.equal(before, nearest):
            break
        size = torch.bincount(nearest, minlength=count).unsqueeze(1)
        sums = torch.zeros_like(centers).index_add_(0, nearest, x)
        centers = torch.where(size > 0, sums / size.clamp_min(1), centers)
    return centers


def _drawn(weight: Tensor) -> Tensor:
    """One index, drawn in proportion to its weight; ``multinomial`` would refuse more than 2**24 examples."""
    total = weight.cumsum(0)
    return torch.searchsorted(total, total[-1:] * torch.rand(1, dtype=total.dtype, device=total.device)).clamp_max(
        len(weight) - 1
    )

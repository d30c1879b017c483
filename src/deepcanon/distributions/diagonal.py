"""Gaussian distribution with a diagonal covariance."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal, constraints
from torch.distributions.kl import kl_divergence, register_kl

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Diagonal(Distribution):
    r"""A Gaussian around ``loc`` (..., D) with independent values, whose standard deviations are given as logarithms.

    The same as ``Independent(Normal(loc, log_scale.exp()), 1)``, but what a network gives as ``log_scale`` is not
    turned into its exponential and back, and the density of a draw comes from the noise that has made it, which saves a
    good part of the time of small layers of latents.

    .. math:: z = \mu + \sigma \varepsilon, \qquad \log q(z) = -\sum_d (\tfrac12 \varepsilon_d^2 + \log \sigma_d)
              - \tfrac D2 \log 2 \pi

    >>> Diagonal(torch.zeros(5, 2), torch.zeros(5, 2)).log_prob(torch.zeros(5, 2)).shape
    torch.Size([5])
    """

    arg_constraints = {"loc": constraints.real_vector, "log_scale": constraints.real_vector}  # noqa: RUF012
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, log_scale: Tensor) -> None:
        self.loc, self.log_scale = loc, log_scale
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.log_scale.exp()

    @property
    def variance(self) -> Tensor:
        return (2 * self.log_scale).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        return self._density((value - self.loc) * (-self.log_scale).exp())

    def entropy(self) -> Tensor:
        return self.log_scale.sum(-1) + self.event_shape[0] * (0.5 + HALF_LOG_TWO_PI)

    def rsample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        return self._drawn(sample_shape)[0]

    def rsample_and_log_prob(
        self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        """A value and its log-density, by the noise that has made it."""
        z, noise = self._drawn(sample_shape)
        return z, self._density(noise)

    def _drawn(self, sample_shape: torch.Size | list[int] | tuple[int, ...]) -> tuple[Tensor, Tensor]:
        noise = torch.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return torch.addcmul(self.loc, self.log_scale.exp(), noise), noise

    def _density(self, noise: Tensor) -> Tensor:
        """The log-density of values this many standard deviations away from the mean."""
        scales = self.log_scale.sum(-1) + self.event_shape[0] * HALF_LOG_TWO_PI
        return -0.5 * noise.square().sum(-1) - scales


@register_kl(Independent, Diagonal)  # type: ignore[untyped-decorator]
def _divergence_of_values(q: Distribution, p: Diagonal) -> Tensor:
    return kl_divergence(q, Independent(Normal(p.loc, p.stddev, validate_args=False), 1, validate_args=False))


@register_kl(Diagonal, Diagonal)  # type: ignore[untyped-decorator]
def _divergence(q: Diagonal, p: Diagonal) -> Tensor:
    ratio = q.log_scale - p.log_scale
    away = (q.loc - p.loc) * (-p.log_scale).exp()
    return 0.5 * ((2 * ratio).exp() + away.square() - 2 * ratio - 1).sum(-1)

"""Pushforward distributions: a simple distribution, moved by an invertible transform."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution, constraints

MOMENT_DRAWS = 256
"""The number of fixed draws from which mean and variance are estimated."""


class _Invertible(Protocol):
    """The part of a chain of transforms that is used, on rows, each with a row of context if there is one."""

    def __call__(self, x: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]: ...

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor: ...


class Pushforward(Distribution):
    r"""The distribution of :math:`z = f(\varepsilon)` for :math:`\varepsilon` from a ``base`` and an invertible f.

    .. math:: \log q(z) = \log q_0(\varepsilon) - \log |\det \partial f / \partial \varepsilon|

    The base has one vector for each of B examples, (B, D), and ``context`` a row for each that f depends on. A value is
    drawn together with its density by ``rsample_and_log_prob``; to find that of any other, f is inverted. Mean and
    variance have no closed form: they are those of some fixed draws, in pairs :math:`\mu \pm \sigma \varepsilon`,
    since the base is Gaussian.
    """

    arg_constraints = {"mean": constraints.real_vector, "stddev": constraints.positive}  # noqa: RUF012
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, base: Distribution, transform: _Invertible, context: Tensor | None = None) -> None:
        self.base, self.transform, self.context = base, transform, context
        super().__init__(base.batch_shape, base.event_shape, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self._fixed().mean(0)

    @property
    def variance(self) -> Tensor:
        return self._fixed().var(0)

    def rsample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        return self.rsample_and_log_prob(sample_shape)[0]

    def rsample_and_log_prob(
        self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        """A value and its log-density, for which nothing is inverted."""
        start = self.base.rsample(torch.Size(sample_shape))
        z, log_det = self._pushed(start)
        return z, self.base.log_prob(start) - log_det

    def log_prob(self, value: Tensor) -> Tensor:
        value = value.expand(torch.broadcast_shapes(value.shape, self.batch_shape + self.event_shape))
        rows, context = self._rows(value)
        start = self.transform.inverse(rows, context).reshape(value.shape)
        return self.base.log_prob(start) - self._pushed(start)[1]

    def _pushed(self, start: Tensor) -> tuple[Tensor, Tensor]:
        """The image of points (..., B, D), and the log-determinants, (..., B)."""
        rows, context = self._rows(start)
        z, log_det = self.transform(rows, context)
        return z.reshape(start.shape), log_det.reshape(start.shape[:-1])

    def _rows(self, points: Tensor) -> tuple[Tensor, Tensor | None]:
        """All points as rows, each with its context."""
        rows = points.reshape(-1, points.shape[-1])
        if self.context is None:
            return rows, None
        return rows, self.context.expand(*points.shape[:-1], -1).reshape(len(rows), -1)

    def _fixed(self) -> Tensor:
        mean, std = self.base.mean, self.base.stddev
        noise = torch.randn(MOMENT_DRAWS // 2, 1, mean.shape[-1], generator=Generator().manual_seed(0)).to(mean)
        return self._pushed(mean + std * torch.cat([noise, -noise]))[0]

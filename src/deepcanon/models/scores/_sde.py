"""Stochastic differential equations that turn data into noise: their noise at any time, drift and diffusion."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor

Process = Literal["vp", "subvp", "ve"]

LEAST_BETA, MOST_BETA = 0.1, 20.0
"""The rate of the noise at times 0 and 1 of the processes that preserve variance, or less."""
LEAST_SIGMA, MOST_SIGMA = 0.01, 50.0
"""The standard deviation of the noise at times 0 and 1 of the process with exploding variance."""


class SDE(ABC):
    r"""The equation :math:`dx = f(t) \, x \, dt + g(t) \, dw` for times from 0, the data, to 1, noise.

    It is linear, so that :math:`x(t) \mid x(0) \sim N(a(t) \, x(0), s(t)^2 I)`.

    References:
        | Score-Based Generative Modeling through Stochastic Differential Equations (Song et al., 2021),
          https://arxiv.org/abs/2011.13456
    """

    @abstractmethod
    def signal(self, t: Tensor) -> Tensor:
        """The factor a of the data at each time."""

    @abstractmethod
    def noise(self, t: Tensor) -> Tensor:
        """The standard deviation s of the noise at each time."""

    @abstractmethod
    def drift(self, t: Tensor) -> Tensor:
        """The factor f of x in the drift."""

    @abstractmethod
    def diffusion(self, t: Tensor) -> Tensor:
        """The coefficient g of the noise."""

    @abstractmethod
    def time(self, angle: Tensor) -> Tensor:
        """The time at which noise and signal are in the ratio that is the tangent of an angle."""

    def angle(self, t: Tensor) -> Tensor:
        return torch.atan2(self.noise(t), self.signal(t))


class VP(SDE):
    r"""Variance preserving, the limit of DDPM: :math:`f = -\beta / 2`, :math:`g = \sqrt\beta` with linear β(t)."""

    def signal(self, t: Tensor) -> Tensor:
        return (-0.5 * _summed(t)).exp()

    def noise(self, t: Tensor) -> Tensor:
        return (-torch.expm1(-_summed(t))).sqrt()

    def drift(self, t: Tensor) -> Tensor:
        return -0.5 * _beta(t)

    def diffusion(self, t: Tensor) -> Tensor:
        return _beta(t).sqrt()

    def time(self, angle: Tensor) -> Tensor:
        return _time_of(torch.log1p(angle.tan().square()))  # 1 + tan² = 1 / a² = exp(summed)


class SubVP(VP):
    r"""Variance below that of :class:`VP`: :math:`s = 1 - a^2`, :math:`g = \sqrt{\beta (1 - a^4)}`."""

    def noise(self, t: Tensor) -> Tensor:
        return -torch.expm1(-_summed(t))

    def diffusion(self, t: Tensor) -> Tensor:
        return (-_beta(t) * torch.expm1(-2 * _summed(t))).sqrt()

    def time(self, angle: Tensor) -> Tensor:
        return _time_of(2 * torch.asinh(0.5 * angle.tan()))  # s / a = 2 sinh(summed / 2)


class VE(SDE):
    r"""Exploding variance, the limit of noise levels: :math:`f = 0`, :math:`s = \sigma_0 (\sigma_1 / \sigma_0)^t`."""

    rate = math.log(MOST_SIGMA / LEAST_SIGMA)

    def signal(self, t: Tensor) -> Tensor:
        return torch.ones_like(t)

    def noise(self, t: Tensor) -> Tensor:
        return LEAST_SIGMA * (self.rate * t).exp()

    def drift(self, t: Tensor) -> Tensor:
        return torch.zeros_like(t)

    def diffusion(self, t: Tensor) -> Tensor:
        return self.noise(t) * math.sqrt(2 * self.rate)

    def time(self, angle: Tensor) -> Tensor:
        return (angle.tan() / LEAST_SIGMA).log() / self.rate


PROCESSES: dict[str, SDE] = {"vp": VP(), "subvp": SubVP(), "ve": VE()}


def _beta(t: Tensor) -> Tensor:
    return LEAST_BETA + (MOST_BETA - LEAST_BETA) * t


def _summed(t: Tensor) -> Tensor:
    """The integral of β from 0 to t."""
    return LEAST_BETA * t + 0.5 * (MOST_BETA - LEAST_BETA) * t**2


def _time_of(summed: Tensor) -> Tensor:
    """The time up to which β sums to so much."""
    slope = MOST_BETA - LEAST_BETA
    return 2 * summed / (LEAST_BETA + (LEAST_BETA**2 + 2 * slope * summed).sqrt())

"""The inverse Gaussian distribution, which torch lacks."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints


class InverseGaussian(Distribution):
    r"""The inverse Gaussian (Wald) distribution with a given mean and the shape 1: a first-passage time.

    .. math:: p(y) = (2 \pi y^3)^{-1/2} \exp\left(-\frac{(y - \mu)^2}{2 \mu^2 y}\right) \qquad (1)

    References:
        | Generating random variates using transformations with multiple roots (Michael, Schucany and Haas, 1976),
          https://doi.org/10.1080/00031305.1976.10479147

    Arguments:
        loc: The means :math:`\mu`, above 0.
    """

    arg_constraints = {"loc": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, loc: Tensor) -> None:
        self.loc = loc
        super().__init__(loc.shape, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        slope = 1.5 * self.loc
        return self.loc / ((1 + slope.square()).sqrt() + slope)

    @property
    def variance(self) -> Tensor:
        return self.loc**3

    def log_prob(self, value: Tensor) -> Tensor:
        exponent = (value - self.loc).square() / (2 * self.loc.square() * value)
        return -exponent - 1.5 * value.log() - 0.5 * math.log(2 * math.pi)  # eq. (1)

    @torch.no_grad()
    def sample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        """Samples: the square of a Gaussian number is the exponent of (1) at two values; one of them is drawn."""
        like = self.loc.expand(self._extended_shape(sample_shape))
        half = self.loc * torch.randn_like(like).square() / 2
        ratio = 1 / (1 + half + (half * (half + 2)).sqrt())  # of the smaller value to the mean
        return self.loc * torch.where(torch.rand_like(like) * (1 + ratio) <= 1, ratio, 1 / ratio)

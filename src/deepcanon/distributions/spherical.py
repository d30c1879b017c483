"""Isotropic (spherical) Gaussian distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints


class Spherical(Distribution):
    """An isotropic Gaussian around ``loc`` (..., D) with one standard deviation, ``scale``, in all D directions.

    The same as ``Independent(Normal(loc, scale), 1)``, but the density takes the logarithm and the square of the scale
    once, not once for each value, which is a good part of the time of a small decoder.

    >>> Spherical(torch.zeros(5, 2), torch.tensor(1.0)).log_prob(torch.zeros(5, 2)).shape
    torch.Size([5])
    """

    arg_constraints = {"loc": constraints.real_vector, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        self.loc, self.scale = loc, scale
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale.expand_as(self.loc)

    @property
    def variance(self) -> Tensor:
        return self.scale.square().expand_as(self.loc)

    def log_prob(self, value: Tensor) -> Tensor:
        square = (value - self.loc).square().sum(-1)
        return -0.5 * square / self.scale.square() - self._constant()

    def entropy(self) -> Tensor:
        return (self._constant() + 0.5 * self.event_shape[0]).expand(self.batch_shape)

    def rsample(self, sample_shape: torch.Size | list[int] | tuple[int, ...] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device)

    def _constant(self) -> Tensor:
        return self.event_shape[0] * (self.scale.log() + 0.5 * math.log(2 * math.pi))

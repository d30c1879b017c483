"""Normalizing flows: an exact density by the change of variables from an invertible map to noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable

import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, RealDensity
from deepcanon.core.precision import full
from deepcanon.nn.standardize import Standardize


class Flow(RealDensity[Batch]):
    r"""A normalizing flow: an invertible map between data and noise, :math:`x = f(z)` with :math:`z \sim N(0, I)`.

    The change of variables gives the exact log-likelihood.

    .. math:: \log p(x) = \log N(z; 0, I) + \log \left| \det \frac{dz}{dx} \right|, \qquad z = f^{-1}(x) \qquad (1)

    A leaf gives ``to_latent``, which is :math:`f^{-1}` with its log-determinant, and ``to_data``, which is f. Examples
    have any shape, latents are vectors of as many numbers.

    References:
        | Normalizing Flows for Probabilistic Modeling and Inference (Papamakarios et al., 2021),
          https://arxiv.org/abs/1912.02762
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features

    @abstractmethod
    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The latent z of each example, (B, features), and log |det dz/dx| of the Jacobian, (B,)."""

    @abstractmethod
    def to_data(self, z: Tensor) -> Tensor:
        """The examples of latents z, (B, features): the inverse of ``to_latent``."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.to_latent(x)

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._change_of_variables(*self.to_latent(x))

    def _change_of_variables(self, z: Tensor, log_det: Tensor) -> Tensor:
        square = full(z).square().sum(-1)
        return log_det - 0.5 * square - 0.5 * self.features * math.log(2 * math.pi)  # eq. (1)

    def encode(self, x: Tensor) -> Tensor:
        """The latent z of each example, (B, features)."""
        return self.to_latent(x)[0]

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        return self.to_data(self._noise(n, generator))

    def _noise(self, n: int, generator: Generator | None) -> Tensor:
        like = next(self.parameters())
        return torch.randn(n, self.features, generator=generator, device=like.device, dtype=like.dtype)


class StandardizedFlow(Flow):
    """A flow of vectors that goes through ``standard`` on the side of the data.

    It standardizes the features by the training data, so that their units do not matter.
    """

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.standard = Standardize(features)

    def prepare(self, data: Iterable[Batch]) -> None:
        """Take the mean and the standard deviation of every feature."""
        self.standard.fit(self.checked(data))


def spread(data: Iterable[Batch], count: int) -> Tensor:
    """Examples spread evenly over the data: all of them, or so many to twice as many.

    >>> spread([Batch(torch.arange(5.0)), Batch(torch.arange(5.0, 9.0))], 2).tolist()
    [0.0, 4.0, 8.0]
    """
    kept: list[Tensor] = []
    seen, stride = 0, 1
    for batch in data:
        kept.append(batch.x[-seen % stride :: stride])
        seen += len(batch.x)
        while sum(map(len, kept)) > 2 * count:
            kept, stride = [torch.cat(kept)[::2]], 2 * stride
    return torch.cat(kept)

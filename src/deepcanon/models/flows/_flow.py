"""Normalizing flows: an exact density by the change of variables from an invertible map to noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable

import torch
from torch import Generator, Tensor

from deepcanon.core import Conditional, DataError, RealDensity, Terms
from deepcanon.core.checks import flat
from deepcanon.core.conditional import given_batch
from deepcanon.core.precision import full
from deepcanon.core.turn import B
from deepcanon.distributions.bits_per_dim import bits_per_dim
from deepcanon.nn.standardize import Standardize
from deepcanon.nn.transforms import Chain


class Flow(RealDensity[B]):
    r"""A normalizing flow: an invertible map between data and noise, :math:`x = f(z)` with :math:`z \sim N(0, I)`.

    The change of variables gives the exact log-likelihood.

    .. math:: \log p(x) = \log N(z; 0, I) + \log \left| \det \frac{dz}{dx} \right|, \qquad z = f^{-1}(x) \qquad (1)

    A leaf gives ``to_latent``, which is :math:`f^{-1}` with its log-determinant, and ``to_data``, which is f. Examples
    have any shape, latents are vectors of as many numbers. A conditional flow is one for each context, which its maps
    read by ``_context(n)``. Where the gray ``levels`` of dequantized images are known, metrics have bits per dimension.

    References:
        | Normalizing Flows for Probabilistic Modeling and Inference (Papamakarios et al., 2021),
          https://arxiv.org/abs/1912.02762
    """

    def __init__(self, features: int, levels: int | None = None) -> None:
        super().__init__()
        self.features, self.levels = features, levels
        self.dimensions = features  # of what the likelihood is measured by: an example, or a frame of it

    @abstractmethod
    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The latent z of each example, (B, features), and ``log |det dz/dx|`` of the Jacobian, (B,)."""

    @abstractmethod
    def to_data(self, z: Tensor) -> Tensor:
        """The examples of latents z, (B, features): the inverse of ``to_latent``."""

    def to_data_with_log_det(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The examples of latents z and ``log |det dx/dz|``, (B,), with gradients: what samples and densities need."""
        x = self.to_data(z)
        return x, -self.to_latent(x)[1]

    def drawn(self, n: int, *, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """Samples with gradients and their log-densities, (n,): what a loss of samples is computed from."""
        z = self._noise(n, generator)
        x, log_det = self.to_data_with_log_det(z)
        return x, self._change_of_variables(z, -log_det)

    def to_uniform(self, x: Tensor) -> tuple[Tensor, Tensor]:
        r"""The probability integral transform of each example, (B, features), and ``log |det du/dx|``, (B,).

        .. math:: u = \Phi(z), \qquad \log p(x) = \log \left| \det \frac{du}{dx} \right|

        With :math:`\Phi` the distribution function of N(0, 1) the same flow has a uniform base distribution: under the
        model, u is uniform in the unit cube. Of an autoregressive flow of one step it is the Rosenblatt transform, the
        conditional distribution functions of the values.
        """
        z, log_det = self.to_latent(x)
        return torch.special.ndtr(z), self._change_of_variables(z, log_det)

    def from_uniform(self, u: Tensor) -> Tensor:
        """The examples of points u in the unit cube, (B, features): the inverse of ``to_uniform``."""
        if u.ndim != 2 or u.shape[1] != self.features or not bool(((u > 0) & (u < 1)).all()):
            raise DataError(f"points of the unit cube are rows of {self.features} numbers between 0 and 1")
        return self.to_data(torch.special.ndtri(u))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.to_latent(x)

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._change_of_variables(*self.to_latent(x))

    def _change_of_variables(self, z: Tensor, log_det: Tensor) -> Tensor:
        square = full(z).square().sum(-1)
        return log_det - 0.5 * square - 0.5 * z.shape[-1] * math.log(2 * math.pi)  # eq. (1)

    def encode(self, x: Tensor) -> Tensor:
        """The latent z of each example, (B, features)."""
        return self.to_latent(x)[0]

    def _metrics_of(self, terms: Terms, batch: B) -> Terms:
        return bits_per_dim(super()._metrics_of(terms, batch), self.dimensions, self.levels)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        return self.to_data(self._noise(n, generator))

    def _noise(self, n: int, generator: Generator | None) -> Tensor:
        like = next(self.parameters())
        return torch.randn(n, self.features, generator=generator, device=like.device, dtype=like.dtype)


class StandardizedFlow(Flow[B]):
    """A flow of vectors that goes through ``standard`` on the side of the data.

    It standardizes the features by the training data, so that their units do not matter.
    """

    def __init__(self, features: int, levels: int | None = None) -> None:
        super().__init__(features, levels)
        self.standard = Standardize(features)

    def prepare(self, data: Iterable[B]) -> None:
        """Take the mean and the standard deviation of every feature."""
        self.standard.fit(self.checked(data))


class TransformFlow(Flow[B]):
    """A flow that is one chain of transforms, ``flow``; a conditional one tells its transforms the context.

    A leaf builds ``flow``, and may give ``_inputs``, the examples as the transforms take them, ``_inputs_of``, those of
    a batch, and ``_told``, the rows that conditional transforms get about the context.
    """

    flow: Chain
    FITTED = 512
    """The number of training examples that the transforms are initialized by; up to twice as many, as it comes."""

    def _inputs(self, x: Tensor) -> Tensor:
        """The examples as the transforms take them."""
        return flat(x, self.features)

    def _inputs_of(self, batch: B) -> Tensor:
        """What of a batch goes through the transforms, as they take it."""
        return self._inputs(batch.x)

    def _told(self, n: int) -> Tensor | None:
        """The rows that conditional transforms get for n examples: the context, if there is one."""
        if not isinstance(self, Conditional):
            return None
        context = self._context(n)
        assert isinstance(context, Tensor)
        return context

    @torch.no_grad()
    def prepare(self, data: Iterable[B]) -> None:
        """Initialize what depends on the data, such as every ActNorm, by some training examples in their contexts."""
        found = ((self._inputs_of(batch), given_batch(self, batch)._told(len(batch))) for batch in self.checked(data))
        x, *told = spread((tuple(part for part in parts if part is not None) for parts in found), self.FITTED)
        self.flow.fit(x, *told)

    def to_latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = self.flow(self._inputs(x), *self._arguments(x.shape[0]))
        return z, log_det

    def to_data(self, z: Tensor) -> Tensor:
        return self.flow.inverse(z, *self._arguments(z.shape[0]))

    def to_data_with_log_det(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self.flow.inverse_with_log_det(z, *self._arguments(z.shape[0]))

    def _arguments(self, n: int) -> tuple[Tensor, ...]:
        told = self._told(n)
        return () if told is None else (told,)


def spread(data: Iterable[tuple[Tensor, ...]], count: int) -> tuple[Tensor, ...]:
    """Examples, with what belongs to each, spread evenly over the data: all of them, or so many to twice as many.

    >>> spread([(torch.arange(5.0),), (torch.arange(5.0, 9.0),)], 2)
    (tensor([0., 4., 8.]),)
    """
    kept: list[tuple[Tensor, ...]] = []
    seen, stride = 0, 1
    for parts in data:
        kept.append(tuple(part[-seen % stride :: stride] for part in parts))
        seen += len(parts[0])
        while sum(len(first) for first, *_ in kept) > 2 * count:
            kept, stride = [tuple(part[::2] for part in _joined(kept))], 2 * stride
    return _joined(kept)


def _joined(kept: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(torch.cat(parts) for parts in zip(*kept, strict=True))

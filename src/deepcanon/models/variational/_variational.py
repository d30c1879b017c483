"""Variational latent-variable models: the evidence lower bound (ELBO) from an encoder and a decoder."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import Self

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution

from deepcanon.core import Conditional, DataError, Density, LikelihoodKind, draw, drawing_from
from deepcanon.core.checks import is_binary, only_real
from deepcanon.core.turn import B
from deepcanon.distributions.diagonal import Diagonal
from deepcanon.distributions.divergence import divergence, drawn

CHUNK = 2**22
"""How many numbers an importance-weighted bound decodes at once, so that many samples fit into memory."""


class Variational(Density[B]):
    r"""A latent-variable model :math:`p(z) p(x \mid z)` with an amortized posterior :math:`q(z \mid x)`.

    A leaf gives ``encode``, the approximate posterior q, ``decode``, which is p(x | z), the size ``latent`` of z, and a
    loss from the terms of ``bound``; the prior of z is the standard normal distribution, unless the leaf gives another.
    (1) is the evidence lower bound (ELBO), (2) the importance-weighted bound (IWAE); both are estimated with samples by
    reparameterization. The KL divergence is in closed form where there is one, else it is estimated at the same sample.
    Several layers of latents are one z, whose posterior and prior are :class:`~deepcanon.distributions.Chained`.

    .. math:: \log p(x) \ge E_{q(z \mid x)} \log p(x \mid z) - KL(q(z \mid x) \,\|\, p(z)) \qquad (1)

    .. math:: \log p(x) \ge E \log \frac1K \sum_k \frac{p(x \mid z_k) \, p(z_k)}{q(z_k \mid x)} \qquad (2)

    A model of binary data may be trained on gray values between 0 and 1, but gives a ``log_prob`` to zeros and ones
    only, and on gray values it has no ``nll`` among its metrics: there the loss is a cross-entropy, not a bound.

    References:
        | Auto-Encoding Variational Bayes (Kingma and Welling, 2014), https://arxiv.org/abs/1312.6114
        | Importance Weighted Autoencoders (Burda et al., 2016), https://arxiv.org/abs/1509.00519
    """

    likelihood_kind: LikelihoodKind = "lower bound"
    importance_weighted = True
    latent: int
    importance_samples: int = 1
    """By how many samples the model's own bound, the one that it is trained on, is estimated."""
    draws: int = 1
    """Over how many latent samples of each example the terms of the ELBO are averaged."""

    @abstractmethod
    def encode(self, x: Tensor) -> Distribution:
        """The approximate posterior q(z | x) of each example."""

    @abstractmethod
    def decode(self, z: Tensor) -> Distribution:
        """The likelihood p(x | z) of the examples, flat, for latents z of any leading shape."""

    def prior(self) -> Distribution:
        """The prior p(z); where it depends on a context, one for each row of it."""
        zeros = next(self.parameters()).new_zeros(self.latent)
        return Diagonal(zeros, zeros)

    def prepare(self, data: Iterable[B]) -> None:
        """Refuse data on which the likelihood would grow without end."""
        for batch in data:
            if self.support == "real":
                only_real(batch.x, self.name())
                continue
            low, high = batch.x.aminmax()
            if low < 0 or high > 1:
                raise DataError(
                    f"a Bernoulli likelihood needs values from 0 to 1, these go from {low:.3g} to {high:.3g}; "
                    "take the gaussian likelihood"
                )

    def bound(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The two terms of the negative ELBO (1), with ``draws`` latent samples per example: each (B,), in nats."""
        posterior = self.encode(x)
        z, density = drawn(posterior, torch.Size([self.draws] if self.draws > 1 else []))  # by reparameterization
        terms = -self.decode(z).log_prob(x.flatten(1)), divergence(posterior, self.prior(), z, density)  # eq. (1)
        reconstruction, kl = (term.mean(0) if term.ndim > 1 else term for term in terms)
        return reconstruction, kl

    def check_values(self, x: Tensor) -> None:
        if not self._has_log_prob(x):
            raise DataError(
                "a Bernoulli likelihood gives probabilities to 0 and 1 only, but x has other values; "
                "threshold it or take the gaussian likelihood"
            )
        super().check_values(x)

    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        """The model's own bound, the ELBO (1), or the bound (2) with ``samples`` of them."""
        model = self._of(len(x))
        if samples is None and self.importance_samples > 1:
            samples = self.importance_samples
        with drawing_from(generator):
            if samples is None:
                reconstruction, kl = model.bound(x)
                return -reconstruction - kl
            return model._importance_bound(x, samples)

    def _has_log_prob(self, x: Tensor) -> bool:
        return self.support != "binary" or is_binary(x)

    def _importance_bound(self, x: Tensor, samples: int) -> Tensor:
        posterior, prior, x = self.encode(x), self.prior(), x.flatten(1)
        chunk = max(1, CHUNK // max(1, x.numel()))
        total = x.new_full((len(x),), -math.inf)
        for start in range(0, samples, chunk):
            z, density = drawn(posterior, torch.Size([min(chunk, samples - start)]))  # (K, B, latent)
            density = posterior.log_prob(z) if density is None else density
            weights = self.decode(z).log_prob(x) + prior.log_prob(z) - density  # (K, B)
            total = torch.logaddexp(total, weights.logsumexp(0))
        return total - math.log(samples)  # eq. (2)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        """z from the prior, then x from the likelihood."""
        model = self._of(n)
        prior = model.prior()
        z = draw(prior, generator, () if prior.batch_shape else (n,))
        return draw(model.decode(z), generator)

    def reconstruct(self, x: Tensor) -> Tensor:
        """The mean of p(x | z) at the posterior mean of z, in the shape of ``x``."""
        return self.decode(self.encode(x).mean).mean.reshape(x.shape)

    def _of(self, n: int) -> Self:
        """The model of n examples: a conditional one with a row of its context for each of them."""
        return self._view(self._context(n)) if isinstance(self, Conditional) else self

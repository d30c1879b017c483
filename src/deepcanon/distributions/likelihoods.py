"""Likelihoods p(x | z): distributions of the data given the outputs of a decoder."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Distribution, Independent
from torch.nn.functional import logsigmoid

from deepcanon.core import Support
from deepcanon.core.checks import one_of
from deepcanon.core.precision import full
from deepcanon.distributions.spherical import Spherical

LikelihoodName = Literal["gaussian", "bernoulli"]


class GaussianLikelihood(nn.Module):
    """A Gaussian likelihood around the outputs, with one learned standard deviation; as a map it is the identity.

    The standard deviation stays above ``SMALLEST``: on data that lie on a manifold the likelihood would otherwise have
    no maximum.
    """

    SMALLEST = 1e-3
    numbers = 1
    support: Support = "real"

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(-1.0))

    @property
    def scale(self) -> Tensor:
        return self.SMALLEST + self.log_scale.exp()

    def forward(self, outputs: Tensor) -> Tensor:
        """The mean of the data."""
        return outputs

    def distribution(self, outputs: Tensor) -> Distribution:
        return Spherical(full(outputs), self.scale)


class BernoulliLikelihood(nn.Module):
    """A Bernoulli likelihood of independent features, with the outputs as logits; as a map it is the sigmoid.

    Gray values between 0 and 1 may be trained on, as targets of a cross-entropy, but have no probability.
    """

    numbers = 1
    support: Support = "binary"

    def forward(self, outputs: Tensor) -> Tensor:
        """The mean of the data."""
        return outputs.sigmoid()

    def distribution(self, outputs: Tensor) -> Distribution:
        return Independent(_Bits(logits=full(outputs), validate_args=False), 1, validate_args=False)


class _Bits(Bernoulli):
    """Torch's Bernoulli distribution by its logits, with a log-probability that passes over them fewer times.

    Torch spreads the values over all samples of a latent before it computes; here they stay as they are.
    """

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.addcmul(logsigmoid(self.logits), self.logits, value - 1)


Likelihood = GaussianLikelihood | BernoulliLikelihood


def likelihood_layer(name: LikelihoodName) -> Likelihood:
    """A new likelihood of this name.

    >>> likelihood_layer("bernoulli")
    BernoulliLikelihood()
    """
    one_of(("gaussian", "bernoulli"), likelihood=name)
    return GaussianLikelihood() if name == "gaussian" else BernoulliLikelihood()

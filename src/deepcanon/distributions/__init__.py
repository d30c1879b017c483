"""Distributions that torch lacks, and the layers that turn outputs of a network into distributions."""

from deepcanon.distributions.base_rates import log_odds
from deepcanon.distributions.bits_per_dim import bits_per_dim
from deepcanon.distributions.chained import Chained
from deepcanon.distributions.diagonal import Diagonal
from deepcanon.distributions.divergence import divergence, drawn
from deepcanon.distributions.heads import Head, HeteroscedasticGaussian, NamedHead, head_layer
from deepcanon.distributions.inverse_gaussian import InverseGaussian
from deepcanon.distributions.likelihoods import BernoulliLikelihood, GaussianLikelihood, likelihood_layer
from deepcanon.distributions.marginals import marginals
from deepcanon.distributions.pushforward import Pushforward
from deepcanon.distributions.scaled import (
    ScaledByValues,
    ScaledGaussian,
    ScaledHead,
    ScaledNegativeBinomial,
    ScaledStudentT,
    scaled_head,
)
from deepcanon.distributions.spherical import Spherical
from deepcanon.lazy import listing

__all__ = [
    "BernoulliLikelihood",
    "Chained",
    "Diagonal",
    "GaussianLikelihood",
    "Head",
    "HeteroscedasticGaussian",
    "InverseGaussian",
    "NamedHead",
    "Pushforward",
    "ScaledByValues",
    "ScaledGaussian",
    "ScaledHead",
    "ScaledNegativeBinomial",
    "ScaledStudentT",
    "Spherical",
    "bits_per_dim",
    "divergence",
    "drawn",
    "head_layer",
    "likelihood_layer",
    "log_odds",
    "marginals",
    "scaled_head",
]
__dir__ = listing(__name__)

"""Gaussian-Bernoulli restricted Boltzmann machine."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Distribution, Independent, Normal

from deepcanon.core import Batch, Recipe, Support, Terms, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.models.energy._rbm import Harmonium
from deepcanon.nn import Standardize


class GaussianRBM(Harmonium[Batch]):
    r"""A restricted Boltzmann machine of real visible units v and binary hidden units h.

    Also known as: Gaussian-Bernoulli RBM, Gaussian-binary RBM, GRBM.

    .. math:: E(v, h) = \sum_i \frac{v_i^2}{2 \sigma_i^2} - \sum_i \frac{v_i}{\sigma_i^2} (b_i + (W h)_i)
              - c^\top h \qquad (1)

    .. math:: p(v \mid h) = N(b + W h, \; \operatorname{diag} \sigma^2) \qquad (2)

    .. math:: p(h_j = 1 \mid v) = \sigma(c_j + \sum_i W_{ij} v_i / \sigma_i^2) \qquad (3)

    The density is a mixture of :math:`2^H` Gaussians with the common variances :math:`\sigma^2`, one for each hidden
    state, whose means are the sums of the columns of W that are on. The hidden units sum out, as in the binary machine,
    and the score follows in closed form: it leads towards the reconstruction :math:`\hat v`, the mean of v where the
    hidden units have their means.

    .. math:: \nabla_v \log p(v) = (\hat v - v) / \sigma^2, \qquad \hat v = b + W p(h = 1 \mid v) \qquad (4)

    Learning starts at the covariance of probabilistic PCA; from small random weights, hidden units may settle on the
    same direction for good. The columns of W are principal components :math:`u_j` of the data, those with eigenvalues
    :math:`\lambda_j > \sigma^2`. Since they are orthogonal, all hidden states are equally likely at first.

    .. math:: w_j = 2 \sqrt{\lambda_j - \sigma^2} \, u_j, \quad b = -\tfrac12 \textstyle\sum_j w_j, \qquad
              \operatorname{Cov} v = \sigma^2 I + \tfrac14 W W^\top \qquad (5)

    The machine works on standardized data, and its energy counts the change of units, so that likelihoods are those of
    the data. Chains and annealing are those of the binary machine: annealing starts at a single Gaussian with the
    variances :math:`\sigma^2`. Chains hardly ever cross from one Gaussian to another that lies far off, so that with at
    most eight hidden units, samples and what persistent chains stand for are drawn exactly, from the probabilities of
    all hidden states. With few hidden units ``log_prob`` is exact and the metric is the ``nll``; with more it
    is estimated, and the metric is the mean squared error of the reconstruction, which says little about the density.

    References:
        | Reducing the Dimensionality of Data with Neural Networks (Hinton and Salakhutdinov, 2006),
          https://doi.org/10.1126/science.1127647
        | Improved Learning of Gaussian-Bernoulli Restricted Boltzmann Machines (Cho et al., 2011),
          https://doi.org/10.1007/978-3-642-21735-7_2

    Arguments:
        features: The number of visible units.
        units: The number of hidden units.
        learned_variances: Whether the variances are learned; else they stay at ``variance``.
        variance: The variance :math:`\sigma^2` of all visible units, in units of the variance of the data, where
            learning starts.
        gibbs_steps: The number k of Gibbs steps of the chain between two steps of learning.
        persistent: Whether the chains go on from step to step; else they start at the data each time.
        chains: The number of persistent chains.
    """

    recipe = Recipe(optimizer="adam", lr=0.05, schedule="linear", batch_size=100, epochs=100)

    EXACT_UNITS = 8

    log_variance: Tensor

    def __init__(
        self,
        features: int,
        units: int = 16,
        learned_variances: bool = True,
        variance: float = 0.25,
        gibbs_steps: int = 5,
        persistent: bool = True,
        chains: int = 100,
    ) -> None:
        at_least(1, features=features)
        if not variance > 0:
            raise UsageError(f"variance must be above 0 (got {variance:g})")
        super().__init__(features, units, gibbs_steps, persistent, chains)
        self.features = features
        nn.init.normal_(self.weight, std=0.1)  # in units of standardized data
        log_variance = torch.full((features,), math.log(variance))
        if learned_variances:
            self.log_variance = nn.Parameter(log_variance)
        else:
            self.register_buffer("log_variance", log_variance)
        self.standardize = Standardize(features)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0))
        return cls(features=2, units=3, chains=16), Batch(2 * x.sign() + 0.5 * x.roll(1, 0))

    @property
    def support(self) -> Support:
        return "real"

    @torch.no_grad()
    def prepare(self, data: Iterable[Batch]) -> None:
        """Standardize by the mean and the standard deviation of each feature, and start at the covariance (5).

        Hidden units beyond those with a principal component of their own keep their small random weights.
        """
        super().prepare(data)
        self.standardize.fit(data)
        products, count = torch.zeros(self.features, self.features, dtype=torch.float64), 0
        for batch in data:
            z = self._states(batch.x).double()
            products, count = products.to(z) + z.T @ z, count + len(z)
        values, components = (part.flip(-1)[..., : self.units] for part in torch.linalg.eigh(products / count))
        excess = values - self.log_variance.exp().mean()  # the variances are equal here
        own = int((excess > 0).sum())
        self.weight[:, :own] = (2 * components * excess.sqrt())[:, :own].to(self.weight)  # eq. (5)
        self.visible_bias.copy_(-0.5 * self.weight.sum(1))

    def _states(self, x: Tensor) -> Tensor:
        z: Tensor = self.standardize(flat(x, self.features))
        return z

    def _examples(self, states: Tensor) -> Tensor:
        return self.standardize.inverse(states)

    def _statistics(self, v: Tensor) -> Tensor:
        return v * (-self.log_variance).exp()

    def _base_measure(self, v: Tensor) -> Tensor:
        return 0.5 * v.square() @ (-self.log_variance).exp()  # eq. (1)

    def _log_volume(self) -> Tensor:
        return -self.standardize.log_det()

    def _draw_visible(self, natural: Tensor, before: Tensor | None, generator: Generator | None) -> Tensor:
        noise = torch.randn(natural.shape, generator=generator, device=natural.device, dtype=natural.dtype)
        return natural + (0.5 * self.log_variance).exp() * noise  # eq. (2)

    def _log_sums(self, natural: Tensor) -> Tensor:
        log_two_pi = math.log(2 * math.pi)
        return 0.5 * (natural.square() * (-self.log_variance).exp() + self.log_variance + log_two_pi)

    def _add_gradients(self, share: Tensor, v: Tensor, on: Tensor) -> None:
        if isinstance(self.log_variance, nn.Parameter):  # T and A change with the variances, too
            pull = v * self._down(on) - 0.5 * v.square()
            self.log_variance.grad = -(share @ pull) * (-self.log_variance).exp()

    def encode(self, x: Tensor) -> Tensor:
        """The probability of each hidden unit to be on, (B, units)."""
        return self._up(self._states(x)).sigmoid()  # eq. (3)

    def reconstruct(self, x: Tensor) -> Tensor:
        """The mean of the visible units where the hidden units have their means, in the shape of ``x``."""
        return self._examples(self._down(self.encode(x))).reshape(x.shape)

    def score(self, x: Tensor) -> Tensor:
        """The gradient of the log-density at each example, in the shape of ``x``."""
        pull = self._down(self.encode(x)) - self._states(x)
        return (pull * (-self.log_variance).exp() / self.standardize.std).reshape(x.shape)  # eq. (4)

    def _metrics_of(self, terms: Terms, batch: Batch) -> Terms:
        error = self._states(self.reconstruct(batch.x)) - self._states(batch.x)
        return super()._metrics_of(terms, batch) or {"reconstruction_mse": error.square().sum(-1).mean()}

    def base(self) -> Distribution:
        """A Gaussian around the mean of the data, in standardized units."""
        return Independent(Normal(self.origin, (0.5 * self.log_variance).exp(), validate_args=False), 1)

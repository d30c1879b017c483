"""Energy-based models: contrastive divergence, and annealed importance sampling of the partition function."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution

from deepcanon.core import Density, LikelihoodKind, Terms, UsageError, draw
from deepcanon.core.checks import at_least
from deepcanon.core.turn import B


class Estimate(NamedTuple):
    """A number and its standard error, which is 0 where the number is exact; both are 0-d tensors."""

    value: Tensor
    error: Tensor


class Energy(Density[B]):
    r"""An energy-based model, :math:`p(x) = e^{-E(x)} / Z`, with the partition function :math:`Z = \sum_x e^{-E(x)}`.

    A leaf gives the energy and, as ``negatives``, the samples of the negative phase, from the model or close to it. The
    energy of the data less that of these samples, which count as constants, then has the gradient (1) of the negative
    log-likelihood: a positive phase less a negative phase. The difference itself says nothing about the fit.

    .. math:: \nabla (-\log p(x)) = \nabla E(x) - E_{x' \sim p} \nabla E(x') \qquad (1)

    Where Z has too many terms to be written out, annealed importance sampling (AIS) estimates it. The leaf connects a
    simple distribution :math:`q`, its ``base``, with :math:`f_1 = e^{-E}` by ``log_tempered``, the logarithm of
    :math:`f_\beta`, and gives as ``transition`` a step of a Markov chain that leaves :math:`f_\beta` invariant. A chain
    runs from q to p and collects an importance weight.

    .. math:: \log w = -\log q(x_0) + \log f_0(x_0)
              + \sum_{k=1}^K \log \frac{f_{\beta_k}(x_{k-1})}{f_{\beta_{k-1}}(x_{k-1})}, \qquad E[w] = Z \qquad (2)

    Since :math:`E \log w \le \log Z`, the estimate of the log partition function (log Z) errs to the low side and
    ``log_prob`` to the high side: it makes the model look too good. Chains that run from samples of p back to q err to
    the other side, and the two bracket the truth (bidirectional Monte Carlo).

    Markov chains run on states, which are examples, flat, unless ``_states`` says otherwise: standardized values, or
    examples together with hidden units; ``_examples`` gives the examples back.

    References:
        | Training Products of Experts by Minimizing Contrastive Divergence (Hinton, 2002),
          https://doi.org/10.1162/089976602760128018
        | Annealed Importance Sampling (Neal, 2001), https://arxiv.org/abs/physics/9803008
        | Sandwiching the marginal likelihood using bidirectional Monte Carlo (Grosse et al., 2015),
          https://arxiv.org/abs/1511.02543
    """

    surrogate = True

    CHAINS = 100
    """How many Markov chains an estimate runs by default."""
    TEMPERATURES = 1000
    """In how many steps the inverse temperature beta goes from 0, the base, to 1, the model."""
    MCMC_STEPS = 500
    """How many transitions lie between a draw of the base and a sample; half of them burn in along the same path."""

    @abstractmethod
    def energy(self, x: Tensor) -> Tensor:
        """The energy E of each example, (B,): the negative log-likelihood up to the constant log Z."""

    @abstractmethod
    def negatives(self, x: Tensor) -> Tensor:
        """Samples of the negative phase, from the model or close to it; a chain may start at the data ``x``."""

    @abstractmethod
    def base(self) -> Distribution:
        """The distribution q of states at which annealing starts."""

    @abstractmethod
    def log_tempered(self, x: Tensor, beta: float) -> Tensor:
        """The logarithm of f, (B,): of some multiple of q at ``beta`` 0, and minus the energy at 1."""

    @abstractmethod
    def transition(self, x: Tensor, beta: float, generator: Generator | None = None) -> Tensor:
        """One step of a Markov chain with f at ``beta`` as its stationary distribution."""

    @abstractmethod
    def exact_log_partition(self) -> Tensor | None:
        """The log partition function (log Z) as a sum that is written out, 0-d; None where that would take too long."""

    def _states(self, x: Tensor) -> Tensor:
        """The states of Markov chains at these examples."""
        return x.flatten(1)

    def _examples(self, states: Tensor) -> Tensor:
        """The examples that the states of Markov chains stand for."""
        return states

    @property
    @abstractmethod
    def enumerable(self) -> bool:
        """Whether the partition function can be written out."""

    @property
    def likelihood_kind(self) -> LikelihoodKind:  # type: ignore[override]
        """``exact`` where log Z is written out; else ``estimate``, on average too high."""
        return "exact" if self.enumerable else "estimate"

    def loss(self, batch: B) -> Terms:
        return {"contrastive_divergence": self.energy(batch.x).mean() - self.energy(self.negatives(batch.x)).mean()}

    def _log_prob(self, x: Tensor) -> Tensor:
        exact = self.exact_log_partition()
        if exact is None:
            raise UsageError(f"the partition function of {self.name()} has too many terms to be written out")
        return -self.energy(x) - exact

    @torch.no_grad()
    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        """-E(x) - log Z, with log Z estimated by as many chains as ``samples`` says."""
        return -self.energy(x) - self.log_partition(chains=samples, generator=generator).value

    @torch.no_grad()
    def error_of_draws(self, batch: B, samples: int | None = None) -> Tensor:
        """The standard error of the estimate of log Z, which all examples share."""
        return self.log_partition(chains=samples).error

    def _metrics_of(self, terms: Terms, batch: B) -> Terms:
        return {"nll": -self.log_prob(batch.x).mean()} if self.enumerable else {}

    @torch.no_grad()
    def log_partition(
        self, *, chains: int | None = None, temperatures: int | None = None, generator: Generator | None = None
    ) -> Estimate:
        """The log partition function (log Z), exact if it can be, else an estimate by (2), on average too low.

        Where it is exact, nothing is annealed, and ``chains``, ``temperatures`` and ``generator`` are refused.
        """
        exact = self.exact_log_partition()
        if exact is not None:
            asked = {"chains": chains, "temperatures": temperatures, "generator": generator}
            for name in (name for name, value in asked.items() if value is not None):
                raise UsageError(
                    f"the log partition function of this {self.name()} is exact, and nothing is annealed: leave out "
                    f"{name}, or call annealed_log_partition"
                )
            return Estimate(exact, torch.zeros_like(exact))
        return self.annealed_log_partition(chains=chains, temperatures=temperatures, generator=generator)

    @torch.no_grad()
    def annealed_log_partition(
        self, *, chains: int | None = None, temperatures: int | None = None, generator: Generator | None = None
    ) -> Estimate:
        """The estimate (2) of log Z by annealed importance sampling, even where log Z is exact; on average too low."""
        chains = self.CHAINS if chains is None else chains
        at_least(1, chains=chains)
        base = self.base()
        x = draw(base, generator, (chains,))
        weights = self.log_tempered(x, 0) - base.log_prob(x)
        return log_mean_exp(weights + self._anneal(x, self._betas(temperatures), generator))

    @torch.no_grad()
    def reverse_log_partition(
        self, x: Tensor, *, temperatures: int | None = None, generator: Generator | None = None
    ) -> Estimate:
        """An estimate of log Z by reverse annealing, from chains that start at ``x`` and run back to the base.

        If these are exact samples of the model, the estimate is on average too high.
        """
        base = self.base()
        x = self._states(x)
        constant = (self.log_tempered(x[:1], 0) - base.log_prob(x[:1])).squeeze(0)  # log of f_0 / q, the same anywhere
        weights = log_mean_exp(self._anneal(x, self._betas(temperatures)[::-1], generator))
        return Estimate(constant - weights.value, weights.error)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        """The last states of n Markov chains, (n, features): first they burn in from the base, then they run freely."""
        x = draw(self.base(), generator, (n,))
        for step in range(self.MCMC_STEPS):
            x = self.transition(x, min(1.0, 2 * (step + 1) / self.MCMC_STEPS), generator)
        return self._examples(x)

    def _betas(self, temperatures: int | None) -> list[float]:
        count = self.TEMPERATURES if temperatures is None else temperatures
        at_least(1, temperatures=count)
        return [step / count for step in range(count + 1)]

    def _anneal(self, x: Tensor, betas: Iterable[float], generator: Generator | None) -> Tensor:
        """The log importance weights that chains collect between these temperatures, (chains,)."""
        total = x.new_zeros(len(x))
        now, *others = betas
        for then in others:
            total += self.log_tempered(x, then) - self.log_tempered(x, now)  # eq. (2)
            x = self.transition(x, then, generator)
            now = then
        return total


def log_mean_exp(weights: Tensor) -> Estimate:
    """The logarithm of the mean of weights given by their logarithms, with its standard error.

    >>> log_mean_exp(torch.tensor([1.0, 3.0]).log()).value.exp()
    tensor(2.)
    """
    value = weights.logsumexp(0) - math.log(len(weights))
    relative = (weights - value).exp()  # of mean 1, so that the error of the logarithm is the error of the mean
    std = relative.std() if len(weights) > 1 else torch.full_like(value, math.inf)
    return Estimate(value, std / math.sqrt(len(weights)))

"""Restricted Boltzmann machine (RBM)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Literal, Self

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Bernoulli, Distribution, Independent
from torch.nn.functional import logsigmoid, softplus

from deepcanon.core import Batch, Descend, Recipe, Support, Terms, Turn
from deepcanon.core.checks import at_least, flat, only_binary
from deepcanon.core.precision import full
from deepcanon.distributions.base_rates import log_odds
from deepcanon.models.energy._energy import Energy

CHUNK = 2**13
"""How many states are written out at once."""


class RBM(Energy):
    r"""A Boltzmann machine of binary visible units v and hidden units h, without couplings within either layer.

    Also known as: harmonium, binary RBM, Bernoulli-Bernoulli RBM.

    The joint energy is :math:`E(v, h) = -v^\top W h - b^\top v - c^\top h`, so that given one layer the units of the
    other are independent, and a step of block Gibbs sampling draws all of them at once.

    .. math:: p(h_j = 1 \mid v) = \sigma(c_j + (v^\top W)_j) \qquad (1)

    .. math:: p(v_i = 1 \mid h) = \sigma(b_i + (W h)_i) \qquad (2)

    The hidden units sum out, which leaves the free energy; it is the ``energy`` of an example.

    .. math:: F(v) = -b^\top v - \sum_j \log(1 + e^{c_j + (v^\top W)_j}), \qquad p(v) = e^{-F(v)} / Z \qquad (3)

    Learning follows the gradient of the contrastive divergence, the mean free energy of the data (positive phase) less
    that of the chains' visible states (negative phase).

    .. math:: \operatorname{mean}_{v \sim \text{data}} F(v) - \operatorname{mean}_{v \sim \text{chains}} F(v) \qquad (4)

    The chains are ``gibbs_steps`` Gibbs steps away from the data (contrastive divergence, CD-k) or go on from where the
    last step of learning has left them (persistent contrastive divergence, PCD). CD-k favors what is near the data; its
    bias falls with k as fast as the chain forgets its start. Persistent chains follow the likelihood, if the learning
    rate is small enough that they keep up.

    The log partition function (log Z) is exact where the states of the smaller layer times the units of the other are
    at most ``MOST``; then the metric is the ``nll``. Else ``log_prob`` uses annealed importance sampling from the base
    rates of the data, which makes the model look too good on average, and the metric is the ``pseudo_nll``,
    :math:`-\sum_i \log p(v_i \mid v_{\setminus i})`, which needs no Z and is not a likelihood.

    On the fixed binarization of MNIST the first line takes three minutes of one core and leads to 91.6 nats per test
    image, which the second line estimates with a standard error of 0.7. The paper that introduced this estimate
    (Salakhutdinov and Murray, 2008) has 86.34 for as many units after a long training with CD-25::

        deepcanon train rbm --units 500 --data binarized-mnist --lr 0.1 --epochs 30 --threads 1 --out runs/rbm
        z = deepcanon.load("runs/rbm").annealed_log_partition(temperatures=5000)  # and -energy(x) - z.value

    The file of these data cannot be downloaded by name; docs/data.md says how to make it.

    References:
        | Information processing in dynamical systems: foundations of harmony theory (Smolensky, 1986)
        | Training Products of Experts by Minimizing Contrastive Divergence (Hinton, 2002),
          https://doi.org/10.1162/089976602760128018
        | Training Restricted Boltzmann Machines using Approximations to the Likelihood Gradient (Tieleman, 2008),
          https://doi.org/10.1145/1390156.1390290
        | On the Quantitative Analysis of Deep Belief Networks (Salakhutdinov and Murray, 2008),
          https://doi.org/10.1145/1390156.1390266

    Arguments:
        features: The number of visible units.
        units: The number of hidden units.
        gibbs_steps: The number k of Gibbs steps of the chain between two steps of learning.
        persistent: Whether the chains go on from step to step; else they start at the data each time.
        chains: The number of persistent chains.
    """

    recipe = Recipe(optimizer="sgd", lr=0.3, schedule="linear", batch_size=100, epochs=100)

    MOST = 2**26
    """The longest sum that is written out, counted in single terms of (3)."""
    PROBES = 64
    """How many features the pseudo-likelihood takes; of more, this many are drawn at random for each batch."""

    origin: Tensor
    chains: Tensor

    def __init__(
        self, features: int, units: int = 100, gibbs_steps: int = 1, persistent: bool = True, chains: int = 100
    ) -> None:
        super().__init__()
        at_least(1, features=features, units=units, gibbs_steps=gibbs_steps, chains=chains)
        self.features = features
        self.units = units
        self.gibbs_steps = gibbs_steps
        self.persistent = persistent
        self.weight = nn.Parameter(0.01 * torch.randn(features, units))  # W
        self.visible_bias = nn.Parameter(torch.zeros(features))  # b
        self.hidden_bias = nn.Parameter(torch.zeros(units))  # c
        self.register_buffer("origin", torch.zeros(features))  # the log-odds at which annealing starts
        if persistent:  # the probabilities by which the chains draw their next hidden states
            self.register_buffer("chains", torch.full((chains, units), 0.5))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.rand(32, 6, generator=torch.Generator().manual_seed(0)).round()
        return cls(features=6, units=4, chains=16), Batch(x)

    @property
    def support(self) -> Support:
        return "binary"

    @torch.no_grad()
    def prepare(self, data: Iterable[Batch]) -> None:
        """Initialize the visible biases by the base rates of the data: each unit is on as often as in the data."""
        self.origin.copy_(log_odds(data, self.features, self.name()))
        self.visible_bias.copy_(self.origin)

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Descend(self.loss, self.parameters(), gradient=self.gradient)]

    @torch.no_grad()
    def gradient(self, batch: Batch) -> Callable[[], Terms]:
        """The gradient of the loss by hand: how often two units are on in the chains, less how often in the data."""
        x = flat(batch.x, self.features)
        negatives = self._run_chains(x)
        both = torch.cat([x, negatives])
        up = self._up(both).clamp_min_(-80)  # below, log(1 + e^a) is 0 in any case, and sigma(a) must not be
        on = up.sigmoid()
        self._keep_chains(on[len(x) :])
        share = _signed_shares(len(x), len(negatives), x.dtype, x.device)
        self.weight.grad = full((share.unsqueeze(1) * both).T @ on)
        self.visible_bias.grad = bias = full(share @ both)
        self.hidden_bias.grad = full(share @ on)

        def terms() -> Terms:
            soft = full(up - on.log()).sum(-1)  # log(1 + e^a) = a - log sigma(a), and sigma(a) is at hand
            return {"contrastive_divergence": self.visible_bias.detach() @ bias + share @ soft}  # eq. (4)

        return terms

    def _metrics_of(self, terms: Terms, batch: Batch) -> Terms:
        return super()._metrics_of(terms, batch) or {"pseudo_nll": self.pseudo_nll(batch.x).mean()}

    def energy(self, x: Tensor) -> Tensor:
        """The free energy F of each example, (B,)."""
        only_binary(x, self.name())
        x = flat(x, self.features)
        return self._free_energy(x, self._up(x))

    @torch.no_grad()
    def negatives(self, x: Tensor) -> Tensor:
        """Samples of the negative phase: visible states at the end of the chains, (chains or B, features)."""
        negatives = self._run_chains(flat(x, self.features))
        self._keep_chains(self.encode(negatives))
        return negatives

    def encode(self, x: Tensor) -> Tensor:
        """The probability of each hidden unit to be on, (B, units)."""
        return self._up(flat(x, self.features)).sigmoid()  # eq. (1)

    def reconstruct(self, x: Tensor) -> Tensor:
        """The probability of each visible unit to be on where the hidden units have their means, in the shape of x."""
        return self._down(self.encode(x)).sigmoid().reshape(x.shape)

    def forward(self, x: Tensor) -> Tensor:
        """The same as ``encode``."""
        return self.encode(x)

    def pseudo_nll(self, x: Tensor) -> Tensor:
        """The negative log-pseudo-likelihood, -sum_i log p(v_i | others), (B,); of many features by an estimate."""
        only_binary(x, self.name())
        x = flat(x, self.features)
        up = self._up(x)
        few = torch.randperm(self.features)[: self.PROBES].tolist() if self.features > self.PROBES else None
        here, total = softplus(up).sum(-1), x.new_zeros(len(x))
        for i in range(self.features) if few is None else few:
            flip = 1 - 2 * x[:, i]  # (B,)
            there = softplus(up + torch.outer(flip, self.weight[i])).sum(-1)
            rise = here - there - flip * self.visible_bias[i]  # F(flipped) - F(x)
            total = total - logsigmoid(rise)
        return total if few is None else total * (self.features / self.PROBES)

    @property
    def enumerable(self) -> bool:
        smaller, larger = sorted((self.features, self.units))
        return smaller < 40 and 2**smaller * larger <= self.MOST

    def exact_log_partition(self, over: Literal["visible", "hidden"] | None = None) -> Tensor | None:
        """log Z as a sum over all states of one layer, by default the smaller one; None if it has too many."""
        if over is None:
            if not self.enumerable:
                return None
            over = "visible" if self.features <= self.units else "hidden"
        if over == "visible":
            parts = [-self._free_energy(v, self._up(v)) for v in _states(self.features, self.weight)]
        else:
            parts = [h @ self.hidden_bias + softplus(self._down(h)).sum(-1) for h in _states(self.units, self.weight)]
        return torch.stack([part.logsumexp(0) for part in parts]).logsumexp(0)

    def base(self) -> Distribution:
        """Independent visible units with the base rates of the data."""
        return Independent(Bernoulli(logits=self.origin, validate_args=False), 1, validate_args=False)

    def log_tempered(self, x: Tensor, beta: float) -> Tensor:
        """The negative free energy of a machine with weights and hidden biases times beta, and mixed visible biases."""
        bias = torch.lerp(self.origin, self.visible_bias, beta)
        return x @ bias + softplus(beta * self._up(x)).sum(-1)

    def transition(self, x: Tensor, beta: float, generator: Generator | None = None) -> Tensor:
        """One Gibbs step (block Gibbs sampling): all hidden units given the visible ones, then the visible ones."""
        h = _bernoulli((beta * self._up(x)).sigmoid(), generator)
        bias = torch.lerp(self.origin, self.visible_bias, beta)
        return _bernoulli((bias + beta * full(h @ self.weight.T)).sigmoid(), generator)

    def _run_chains(self, x: Tensor) -> Tensor:
        """The visible states of the chains after ``gibbs_steps`` from where they are, or from the data."""
        on = self.chains if self.persistent else self._up(x).sigmoid()  # eq. (1)
        visible = _bernoulli(self._down(_bernoulli(on)).sigmoid())  # eq. (2)
        for _ in range(self.gibbs_steps - 1):
            visible = self.transition(visible, 1)
        return visible

    def _keep_chains(self, on: Tensor) -> None:
        """Let persistent chains go on from hidden units with these probabilities, if this is training."""
        if self.persistent and self.training:
            self.chains.copy_(on)

    def _up(self, x: Tensor) -> Tensor:
        """The logits of the hidden units, (B, units)."""
        return full(torch.addmm(self.hidden_bias, x, self.weight))

    def _down(self, h: Tensor) -> Tensor:
        """The logits of the visible units, (B, features)."""
        return full(torch.addmm(self.visible_bias, h, self.weight.T))

    def _free_energy(self, x: Tensor, up: Tensor) -> Tensor:
        return -(x @ self.visible_bias) - softplus(up).sum(-1)  # eq. (3)


def _bernoulli(probability: Tensor, generator: Generator | None = None) -> Tensor:
    """Bernoulli samples; comparing uniform numbers in place is several times faster than ``torch.bernoulli``."""
    uniform = torch.rand(probability.shape, generator=generator, device=probability.device, dtype=probability.dtype)
    return torch.lt(uniform, probability, out=uniform)


@lru_cache(maxsize=8)
def _signed_shares(data: int, chains: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The weights that take a mean over so many chains less one over the data before them; used at every step."""
    return torch.tensor([-1 / data] * data + [1 / chains] * chains, dtype=dtype, device=device)


def _states(units: int, like: Tensor) -> Iterable[Tensor]:
    """All states of so many binary units, as rows, in chunks."""
    bits = torch.arange(units, device=like.device)
    for start in range(0, 2**units, CHUNK):
        numbers = torch.arange(start, min(start + CHUNK, 2**units), device=like.device)
        yield (numbers.unsqueeze(1) >> bits & 1).to(like.dtype)

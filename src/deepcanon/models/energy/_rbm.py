"""Restricted Boltzmann machines with visible units of any exponential family, and binary hidden units."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal, Self

import torch
from torch import Generator, Tensor, nn
from torch.distributions import Bernoulli, Distribution, Independent
from torch.nn.functional import softplus

from deepcanon.core import Batch, Descend, Recipe, Support, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.core.fast_product import product
from deepcanon.core.precision import full
from deepcanon.core.turn import B
from deepcanon.models.energy._energy import Energy

CHUNK = 2**13
"""How many states are written out at once."""
FASTEST = 50
"""A product of learning rate and hidden units with which persistent chains keep up, chosen by validation images."""


class Harmonium(Energy[B]):
    r"""A layer of visible units and one of binary hidden units h, without couplings within either.

    The visible units are of an exponential family with sufficient statistics T(v) and the base measure
    :math:`e^{-A(v)}`; the leaf chooses it.

    .. math:: E(v, h) = A(v) - T(v)^\top W h - b^\top T(v) - c^\top h \qquad (1)

    Given one layer the units of the other are independent, so that block Gibbs sampling draws all of them at once: the
    hidden ones with the log-odds :math:`c + W^\top T(v)`, the visible ones with the natural parameters
    :math:`b + W h`. The hidden units sum out, which leaves the free energy; it is the ``energy`` of an example.

    .. math:: F(v) = A(v) - b^\top T(v) - \sum_j \log(1 + e^{c_j + (W^\top T(v))_j}) \qquad (2)

    Learning follows the gradient of the contrastive divergence, the mean free energy of the data (positive phase) less
    that of the chains' visible states (negative phase). It is written by hand.

    .. math:: \operatorname{mean}_{v \sim \text{data}} F(v) - \operatorname{mean}_{v \sim \text{chains}} F(v) \qquad (3)

    Annealing starts at visible units with the natural parameters ``origin`` and no couplings.

    References:
        | Exponential Family Harmoniums with an Application to Information Retrieval (Welling et al., 2004),
          https://papers.nips.cc/paper/2672-exponential-family-harmoniums-with-an-application-to-information-retrieval
    """

    MOST = 2**26
    """The longest sum that is written out, counted in single terms of (2)."""
    EXACT_UNITS = 0
    """With at most so many hidden units, samples and persistent chains are drawn exactly, from all hidden states."""

    origin: Tensor
    chains: Tensor

    def __init__(self, width: int, units: int, gibbs_steps: int, persistent: bool, chains: int) -> None:
        super().__init__()
        at_least(1, units=units, gibbs_steps=gibbs_steps, chains=chains)
        self.width = width
        self.units = units
        self.gibbs_steps = gibbs_steps
        self.persistent = persistent
        self.weight = nn.Parameter(0.01 * torch.randn(width, units))  # W
        self.visible_bias = nn.Parameter(torch.zeros(width))  # b
        self.hidden_bias = nn.Parameter(torch.zeros(units))  # c
        self.register_buffer("origin", torch.zeros(width))  # the visible biases at which annealing starts
        if persistent:  # the probabilities by which the chains draw their next hidden states
            self.register_buffer("chains", torch.full((chains, units), 0.5))

    @abstractmethod
    def _draw_visible(self, natural: Tensor, before: Tensor | None, generator: Generator | None) -> Tensor:
        """Visible states drawn by their natural parameters, (B, width); units that ``before`` lacks stay absent."""

    @abstractmethod
    def _log_sums(self, natural: Tensor) -> Tensor:
        """The logarithm of the sum of exp(natural' T(v) - A(v)) over all values of each visible unit, (B, ...)."""

    def _statistics(self, v: Tensor) -> Tensor:
        """The sufficient statistics T of visible states, (B, width)."""
        return v

    def _base_measure(self, v: Tensor) -> Tensor | None:
        """A of each visible state, (B,); None where it is 0."""
        return None

    def _log_volume(self) -> Tensor | float:
        """The logarithm of the volume that a unit of visible states has among examples: of a change of units."""
        return 0.0

    def _add_gradients(self, share: Tensor, v: Tensor, on: Tensor) -> None:
        """Fill in the gradients of further parameters; ``share`` weighs the visible states, ``on`` has p(h | v)."""

    def _share(self, data: Tensor, negatives: Tensor) -> Tensor:
        """The weights by which a sum over data and chains is the mean over the chains less that over the data."""
        return _signed_shares(data.shape[0], negatives.shape[0], data.dtype, data.device)

    def turns(self) -> Sequence[Turn[B]]:
        return [Descend(self.loss, self.parameters(), gradient=self.gradient)]

    @torch.no_grad()
    def gradient(self, batch: B) -> Callable[[], Terms]:
        """The gradient of the loss by hand: how often two units are on in the chains, less how often in the data."""
        x = self._states(batch.x)
        negatives = self._run_chains(x)
        both = torch.cat([x, negatives])
        up = self._up(both).clamp_min_(-80)  # below, log(1 + e^a) is 0 in any case, and sigma(a) must not be
        on = up.sigmoid()
        self._keep_chains(on[x.shape[0] :])  # faster than len(x)
        share, statistics = self._share(x, negatives), self._statistics(both)
        self.weight.grad = full(product((share.unsqueeze(1) * statistics).T, on))
        self.visible_bias.grad = bias = full(share @ statistics)
        self.hidden_bias.grad = full(share @ on)
        self._add_gradients(share, both, on)

        def terms() -> Terms:
            soft = full(up - on.log()).sum(-1)  # log(1 + e^a) = a - log sigma(a), and sigma(a) is at hand
            measure = self._base_measure(both)
            soft = soft if measure is None else soft - measure
            return {"contrastive_divergence": self.visible_bias.detach() @ bias + share @ soft}  # eq. (3)

        return terms

    def energy(self, x: Tensor) -> Tensor:
        """The free energy F of each example, (B,)."""
        self.check_values(x)
        v = self._states(x)
        return self._free_energy(v, self._up(v)) + self._log_volume()

    def joint_energy(self, x: Tensor, h: Tensor) -> Tensor:
        """The energy E of each example together with hidden states, (B,)."""
        statistics, measure = self._statistics(self._states(x)), self._base_measure(self._states(x))
        linear = (statistics * self._down(h)).sum(-1) + h @ self.hidden_bias - self._log_volume()
        return -linear if measure is None else measure - linear  # eq. (1)

    @torch.no_grad()
    def negatives(self, x: Tensor) -> Tensor:
        """Samples of the negative phase: the examples at the end of the chains, (chains or B, features)."""
        negatives = self._run_chains(self._states(x))
        self._keep_chains(self._up(negatives).sigmoid())
        return self._examples(negatives)

    def encode(self, x: Tensor) -> Tensor:
        """The probability of each hidden unit to be on, (B, units)."""
        return self._up(self._states(x)).sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """The same as ``encode``."""
        return self.encode(x)

    @property
    def enumerable(self) -> bool:
        smaller, larger = (self.width, self.units) if self._sum_over() == "visible" else (self.units, self.width)
        return smaller < 40 and 2**smaller * larger <= self.MOST

    def exact_log_partition(self, over: Literal["visible", "hidden"] | None = None) -> Tensor | None:
        """log Z as a sum over all states of one layer, by default the smaller one; None if it has too many.

        Only binary visible units can be summed over.
        """
        if over is None:
            if not self.enumerable:
                return None
            over = self._sum_over()
        if over == "hidden":
            parts = [h @ self.hidden_bias + self._log_sums(self._down(h)).sum(-1) for h in self._hidden_states()]
        elif self.support == "binary":
            parts = [-self._free_energy(v, self._up(v)) for v in binary_states(self.width, self.weight)]
        else:
            raise UsageError(f"the visible units of {self.name()} are not binary; sum over the hidden ones")
        return torch.stack([part.logsumexp(0) for part in parts]).logsumexp(0)

    def log_tempered(self, x: Tensor, beta: float) -> Tensor:
        """The negative free energy of a machine with weights and hidden biases times beta, and mixed visible biases."""
        found = self._statistics(x) @ self._tempered_bias(beta) + softplus(beta * self._up(x)).sum(-1)
        measure = self._base_measure(x)
        return found if measure is None else found - measure

    def transition(self, x: Tensor, beta: float, generator: Generator | None = None) -> Tensor:
        """One Gibbs step (block Gibbs sampling): all hidden units given the visible ones, then the visible ones."""
        h = bernoulli((beta * self._up(x)).sigmoid(), generator)
        return self._draw_visible(self._tempered_bias(beta) + beta * full(h @ self.weight.T), x, generator)

    def _tempered_bias(self, beta: float) -> Tensor:
        return torch.lerp(self.origin, self.visible_bias, beta)

    def _run_chains(self, x: Tensor) -> Tensor:
        """The visible states of the chains after ``gibbs_steps`` from where they are, or from the data."""
        if self.persistent and self.units <= self.EXACT_UNITS:
            return self._drawn(len(self.chains), None)
        on = self.chains if self.persistent else self._up(x).sigmoid()
        visible = self._draw_visible(self._down(bernoulli(on)), None if self.persistent else x, None)
        for _ in range(self.gibbs_steps - 1):
            visible = self.transition(visible, 1)
        return visible

    def _drawn(self, n: int, generator: Generator | None) -> Tensor:
        """Visible states drawn from the model, by the probabilities of all hidden states."""
        h = torch.cat([*self._hidden_states()])
        share = (h @ self.hidden_bias + self._log_sums(self._down(h)).sum(-1)).softmax(0)
        uniform = torch.rand(n, generator=generator, device=share.device, dtype=share.dtype)
        place = torch.searchsorted(share.cumsum(0), uniform).clamp_max_(len(h) - 1)
        return self._draw_visible(self._down(h[place]), None, generator)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        exact = self.units <= self.EXACT_UNITS
        return self._examples(self._drawn(n, generator)) if exact else super()._sample(n, generator)

    def _keep_chains(self, on: Tensor) -> None:
        """Let persistent chains go on from hidden units with these probabilities, if this is training."""
        if self.persistent and self.training:
            self.chains.copy_(on)

    def _up(self, x: Tensor) -> Tensor:
        """The logits of the hidden units given visible states, (B, units)."""
        return full(product(self._statistics(x), self.weight, self.hidden_bias))

    def _down(self, h: Tensor) -> Tensor:
        """The natural parameters of the visible units given hidden states, (B, width)."""
        return full(product(h, self.weight.T, self.visible_bias))

    def _free_energy(self, x: Tensor, up: Tensor) -> Tensor:
        free = -(self._statistics(x) @ self.visible_bias) - softplus(up).sum(-1)
        measure = self._base_measure(x)
        return free if measure is None else free + measure  # eq. (2)

    def _sum_over(self) -> Literal["visible", "hidden"]:
        return "visible" if self.support == "binary" and self.width <= self.units else "hidden"

    def _hidden_states(self) -> Iterable[Tensor]:
        return binary_states(self.units, self.weight)


class BinaryHarmonium(Harmonium[Batch]):
    """A layer of binary visible units and one of binary hidden units: an RBM, or a layer of a deep belief network."""

    def __init__(
        self, features: int, units: int, gibbs_steps: int = 1, persistent: bool = True, chains: int = 100
    ) -> None:
        at_least(1, features=features)
        super().__init__(features, units, gibbs_steps, persistent, chains)
        self.features = features

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.rand(32, 6, generator=torch.Generator().manual_seed(0)).round()
        return cls(features=6, units=4, chains=16), Batch(x)

    @property
    def support(self) -> Support:
        return "binary"

    def _states(self, x: Tensor) -> Tensor:
        return flat(x, self.features)

    def _draw_visible(self, natural: Tensor, before: Tensor | None, generator: Generator | None) -> Tensor:
        return bernoulli(natural.sigmoid(), generator)

    def _log_sums(self, natural: Tensor) -> Tensor:
        return softplus(natural)

    def base(self) -> Distribution:
        """Independent visible units with the base rates of the data."""
        return Independent(Bernoulli(logits=self.origin, validate_args=False), 1, validate_args=False)


def paced(recipe: Recipe, units: int) -> Recipe:
    """The recipe for so many hidden units: of many, the learning rate is lower, in inverse proportion.

    With their number grows how far a step moves the energy, which persistent chains must follow.
    """
    return replace(recipe, lr=min(recipe.lr, FASTEST / units))


def bernoulli(probability: Tensor, generator: Generator | None = None) -> Tensor:
    """Bernoulli samples; comparing uniform numbers in place is several times faster than ``torch.bernoulli``."""
    uniform = torch.rand(probability.shape, generator=generator, device=probability.device, dtype=probability.dtype)
    return torch.lt(uniform, probability, out=uniform)


def binary_states(units: int, like: Tensor) -> Iterable[Tensor]:
    """All states of so many binary units, as rows, in chunks."""
    bits = torch.arange(units, device=like.device)
    for start in range(0, 2**units, CHUNK):
        numbers = torch.arange(start, min(start + CHUNK, 2**units), device=like.device)
        yield (numbers.unsqueeze(1) >> bits & 1).to(like.dtype)


@lru_cache(maxsize=8)
def _signed_shares(data: int, chains: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The weights that take a mean over so many chains less one over the data before them; used at every step."""
    return torch.tensor([-1 / data] * data + [1 / chains] * chains, dtype=dtype, device=device)

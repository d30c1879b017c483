"""Deep belief network (DBN)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Self

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import softplus

from deepcanon.core import Batch, Density, Descend, LikelihoodKind, Recipe, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.models.energy._greedy import Greedy
from deepcanon.models.energy._rbm import BinaryHarmonium, bernoulli


class DBN(Greedy[Batch], Density[Batch]):
    r"""A stack of restricted Boltzmann machines trained layer by layer, of which all but the top one lead down.

    Also known as: deep belief net.

    .. math:: p(v, h_1, \ldots, h_L) = p(v \mid h_1) \cdots p(h_{L-2} \mid h_{L-1}) \; p(h_{L-1}, h_L), \qquad
              p(h_{L-1}, h_L) \propto e^{-E(h_{L-1}, h_L)} \qquad (1)

    .. math:: p(h_{l-1} \mid h_l) = \operatorname{Bernoulli}(\sigma(b_l + W_l h_l)), \qquad
              q(h_l \mid h_{l-1}) = \operatorname{Bernoulli}(\sigma(c_l + R_l h_{l-1})) \qquad (2)

    While a layer is trained as a machine of its own, by contrastive divergence on samples of q of the layers below, its
    recognition weights R are W transposed. With W of the layer below, transposed, as its first weights it starts as the
    same model, and raises the bound (3) from there.

    .. math:: \log p(v) \ge E_{q} \log \frac{1}{K} \sum_{k=1}^K
              \frac{p(v, h_1^k, \ldots, h_{L-1}^k)}{q(h_1^k, \ldots, h_{L-1}^k \mid v)} \qquad (3)

    Then all layers are fine-tuned together, with R and W untied, by the up-down algorithm: on the way up (wake), W
    learns to predict each layer from samples of the one above it; the top machine learns from what arrives there; and
    on the way down from its chains (sleep), R learns to find the layers that have generated an example.

    The bound needs log Z of the top machine only. Where that can be written out, ``log_prob`` is a lower bound, and the
    metric is the ``nll`` by it; else log Z is annealed, and ``log_prob`` an estimate.

    References:
        | A Fast Learning Algorithm for Deep Belief Nets (Hinton et al., 2006),
          https://doi.org/10.1162/neco.2006.18.7.1527
        | On the Quantitative Analysis of Deep Belief Networks (Salakhutdinov and Murray, 2008),
          https://doi.org/10.1145/1390156.1390266

    Arguments:
        features: The number of visible units.
        hidden: The numbers of hidden units, from the lowest layer to the top, at least two.
        gibbs_steps: The number of Gibbs steps of the chains between two steps of learning.
        chains: The number of persistent chains of each layer.
        fine_tuning: The share of the training that is up-down fine-tuning; with 0 the layers stay as they were learned.
    """

    surrogate = True
    recipe = Recipe(optimizer="sgd", lr=0.5, schedule="linear", batch_size=100, epochs=300)
    measured_samples = 20
    importance_weighted = True

    UP_DOWN_RATE = 0.04
    """The learning rate of fine-tuning, as a share of that of the first layer."""

    def __init__(
        self,
        features: int,
        hidden: tuple[int, ...] = (100, 14),
        gibbs_steps: int = 1,
        chains: int = 100,
        fine_tuning: float = 0.3,
    ) -> None:
        if len(hidden) < 2:
            raise UsageError(f"a deep belief network has at least two hidden layers (got {len(hidden)})")
        if not 0 <= fine_tuning < 1:
            raise UsageError(f"fine_tuning is a share of the training, from 0 to below 1 (got {fine_tuning:g})")
        super().__init__(features, hidden, gibbs_steps, chains)
        self.fine_tuning = fine_tuning
        self.recognition = nn.ModuleList(nn.Linear(*size) for size in self.sizes[:-1])  # R and c
        for layer in range(len(self.recognition)):
            self._tie(layer)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.rand(32, 5, generator=torch.Generator().manual_seed(0)).round()
        return cls(features=5, hidden=(4, 3), chains=16), Batch(x)

    @property
    def top(self) -> BinaryHarmonium:
        """The machine of the two topmost layers."""
        return self._layer(len(self.layers) - 1)

    @property
    def likelihood_kind(self) -> LikelihoodKind:  # type: ignore[override]
        """``lower bound`` where log Z of the top machine is written out, else ``estimate``."""
        return "lower bound" if self.top.enumerable else "estimate"

    def turns(self) -> Sequence[Turn[Batch]]:
        greedy = 1 - self.fine_tuning
        layers = self.greedy_turns(greedy)
        if self.fine_tuning == 0:
            return layers
        generative = [each for number in range(len(self.recognition)) for each in self._generative(number)]
        everything = [*generative, *self.recognition.parameters(), *self.top.parameters()]
        rate = self.UP_DOWN_RATE * self.recipe.lr
        return [*layers, Descend(self.up_down, everything, name="up_down", share=(greedy, 1.0), lr=rate)]

    def loss(self, batch: Batch) -> Terms:
        return {
            name: value for number in range(len(self.layers)) for name, value in self.layer_loss(number, batch).items()
        }

    def up_down(self, batch: Batch) -> Terms:
        """The loss of the up-down algorithm: wake, top and sleep."""
        states = self._up(batch.x, len(self.recognition))
        wake = self._log_generative(states)
        dreamed = self.top.negatives(states[-1])
        top = self.top.energy(states[-1]).mean() - self.top.energy(dreamed).mean()
        sleep = self._log_recognition(self._down(dreamed))
        return {"wake": -wake.mean(), "top": top, "sleep": -sleep.mean()}

    @torch.no_grad()
    def log_unnormalized(self, x: Tensor, samples: int = 1, generator: Generator | None = None) -> Tensor:
        """The bound (3) by so many samples plus log Z of the top machine, (B,), which so need not be known."""
        at_least(1, samples=samples)
        weights = self._log_weight(x.repeat(samples, *[1] * (x.ndim - 1)), generator).reshape(samples, len(x))
        return weights.logsumexp(0) - math.log(samples)  # eq. (3)

    @torch.no_grad()
    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        return self.log_unnormalized(x, samples or 1, generator) - self._log_partition(generator)

    def _log_weight(self, x: Tensor, generator: Generator | None) -> Tensor:
        """The logarithm of one ratio of (3) without Z, (B,), its hidden layers drawn from q."""
        states = self._up(x, len(self.recognition), generator)
        joint = self._log_generative(states) - self.top.energy(states[-1])  # eq. (1)
        return joint - self._log_recognition(states)

    def _log_partition(self, generator: Generator | None) -> Tensor:
        exact = self.top.exact_log_partition()
        return self.top.annealed_log_partition(generator=generator).value if exact is None else exact

    def _metrics_of(self, terms: Terms, batch: Batch) -> Terms:
        if not self.top.enumerable:
            return {"reconstruction_error": self._reconstruction_error(batch.x)}
        return {"nll": -self.log_prob(batch.x, samples=self.measured_samples).mean()}

    def _reconstruction_error(self, x: Tensor) -> Tensor:
        return (self.reconstruct(x) - x).square().flatten(1).sum(1).mean()

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        return self._down(self.top.sample(n, generator=generator), generator)[0]

    def encode(self, x: Tensor) -> Tensor:
        """The probability of each unit of the top layer to be on, (B, units), layer by layer from means."""
        means = flat(x, self.features)
        for recognition in self.recognition:
            means = recognition(means).sigmoid()
        return self.top.encode(means)

    def reconstruct(self, x: Tensor) -> Tensor:
        """The probability of each visible unit to be on, on the way down from the means of the top layer."""
        means = self.encode(x)
        for number in reversed(range(len(self.layers))):
            means = self._layer(number)._down(means).sigmoid()
        return means.reshape(x.shape)

    @torch.no_grad()
    def _up(self, x: Tensor, layers: int, generator: Generator | None = None) -> list[Tensor]:
        """The visible units, and samples of so many hidden layers by q."""
        states = [flat(x, self.features)]
        for recognition in self.recognition[:layers]:
            states.append(bernoulli(recognition(states[-1]).sigmoid(), generator))  # eq. (2)
        return states

    @torch.no_grad()
    def _down(self, h: Tensor, generator: Generator | None = None) -> list[Tensor]:
        """Samples of all layers below the top machine's visible units, and these, from the visible units up."""
        states = [h]
        for number in reversed(range(len(self.recognition))):
            states.insert(0, bernoulli(self._layer(number)._down(states[0]).sigmoid(), generator))
        return states

    def _log_generative(self, states: list[Tensor]) -> Tensor:
        """The log-probability of each layer given the one above it, but for the last, (B,)."""
        pairs = enumerate(pairwise(states))
        parts = [_log_bernoulli(self._layer(number)._down(above), below) for number, (below, above) in pairs]
        return torch.stack(parts).sum(0)

    def _log_recognition(self, states: list[Tensor]) -> Tensor:
        """The log-probability of each layer given the one below it, but for the first, by q, (B,)."""
        pairs = zip(self.recognition, states, states[1:], strict=False)
        return torch.stack([_log_bernoulli(layer(below), above) for layer, below, above in pairs]).sum(0)

    def _own(self, number: int) -> list[nn.Parameter]:
        """The parameters of a layer; those of recognition have no gradient of their own while they are tied."""
        return [each for part in (self.layers, self.recognition) for each in part[number : number + 1].parameters()]

    def _generative(self, number: int) -> list[nn.Parameter]:
        return [self._layer(number).weight, self._layer(number).visible_bias]

    @torch.no_grad()
    def _tie(self, number: int) -> None:
        """Make the recognition weights of a layer those of its machine; the top one has none."""
        if number < len(self.recognition):
            recognition = self.recognition[number]
            assert isinstance(recognition, nn.Linear)
            recognition.weight.copy_(self._layer(number).weight.T)
            recognition.bias.copy_(self._layer(number).hidden_bias)


def _log_bernoulli(logits: Tensor, x: Tensor) -> Tensor:
    """The log-probability of binary units with these logits, (B,)."""
    return (x * logits - softplus(logits)).sum(1)

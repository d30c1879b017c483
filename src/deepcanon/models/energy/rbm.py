"""Restricted Boltzmann machine (RBM)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from deepcanon.core import Batch, Recipe, Terms
from deepcanon.core.checks import flat, only_binary
from deepcanon.distributions.base_rates import log_odds
from deepcanon.models.energy._rbm import BinaryHarmonium, paced


class RBM(BinaryHarmonium):
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

    The chains are ``gibbs_steps`` Gibbs steps away from the data (contrastive divergence, CD-k) or go on from where the
    last step of learning has left them (persistent contrastive divergence, PCD). CD-k favors what is near the data; its
    bias falls with k as fast as the chain forgets its start. Persistent chains follow the likelihood, if the learning
    rate is small enough that they keep up; with more than 166 hidden units, that of the recipe falls with their number.

    The log partition function (log Z) is exact where the states of the smaller layer times the units of the other are
    at most ``MOST``; then the metric is the ``nll``. Else ``log_prob`` uses annealed importance sampling from the base
    rates of the data, which makes the model look too good on average, and the metric is the ``pseudo_nll``,
    :math:`-\sum_i \log p(v_i \mid v_{\setminus i})`, which needs no Z and is not a likelihood.

    The first line trains on the fixed binarization of MNIST, the second estimates log Z with its standard error. The
    paper that introduced this estimate (Salakhutdinov and Murray, 2008) reports 86.34 nats per test image for as many
    units after a long training with CD-25::

        deepcanon train rbm --units 500 --data binarized-mnist --epochs 30 --threads 1 --out runs/rbm
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

    recipe = Recipe(optimizer="sgd", lr=0.3, schedule="linear", batch_size=100, epochs=300)

    PROBES = 64
    """How many features the pseudo-likelihood takes; of more, this many are drawn at random for each batch."""

    def __init__(
        self, features: int, units: int = 100, gibbs_steps: int = 1, persistent: bool = True, chains: int = 100
    ) -> None:
        super().__init__(features, units, gibbs_steps, persistent, chains)
        self.__dict__["recipe"] = paced(self.recipe, units)

    @torch.no_grad()
    def prepare(self, data: Iterable[Batch]) -> None:
        """Initialize the visible biases by the base rates of the data: each unit is on as often as in the data."""
        self.origin.copy_(log_odds(data, self.features, self.name()))
        self.visible_bias.copy_(self.origin)

    def encode(self, x: Tensor) -> Tensor:
        """The probability of each hidden unit to be on, (B, units)."""
        return self._up(self._states(x)).sigmoid()  # eq. (1)

    def reconstruct(self, x: Tensor) -> Tensor:
        """The probability of each visible unit to be on where the hidden units have their means, in the shape of x."""
        return self._down(self.encode(x)).sigmoid().reshape(x.shape)  # eq. (2)

    def _metrics_of(self, terms: Terms, batch: Batch) -> Terms:
        return super()._metrics_of(terms, batch) or {"pseudo_nll": self.pseudo_nll(batch.x).mean()}

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
            rise = here - there - flip * self.visible_bias[i]  # F(flipped) - F(x), eq. (3)
            total = total - logsigmoid(rise)
        return total if few is None else total * (self.features / self.PROBES)

"""Restricted Boltzmann machine for collaborative filtering."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Self

import torch
from torch import Generator, Tensor
from torch.distributions import Distribution, Independent, OneHotCategorical, TransformedDistribution
from torch.distributions.transforms import ReshapeTransform
from torch.nn.functional import one_hot, softplus

from deepcanon.core import DataError, HeldOut, How, Incomplete, Recipe, Support, Terms
from deepcanon.core.checks import at_least, flat
from deepcanon.models.energy._rated_entries import Rated
from deepcanon.models.energy._rbm import Harmonium, bernoulli

PAIRS = 2**12
"""How many ratings are predicted at once."""


class RatingsRBM(Harmonium[Incomplete]):
    r"""A restricted Boltzmann machine of ratings, in which a rating that a user has not given is an absent unit.

    Also known as: RBM for collaborative filtering, CF-RBM, RBM with softmax visible units.

    Every user has a machine with a visible unit for each item i that the user has rated, with one of K values; all
    machines share their weights and biases. Given the hidden units h, the taste of the user, ratings are independent.

    .. math:: p(v_i = k \mid h) = \frac{\exp(b_{ik} + \sum_j W_{ikj} h_j)}
              {\sum_l \exp(b_{il} + \sum_j W_{ilj} h_j)} \qquad (1)

    .. math:: p(h_j = 1 \mid v) = \sigma(c_j + \sum_{i \text{ rated}} W_{i v_i j}) \qquad (2)

    .. math:: F(v) = -\sum_{i \text{ rated}} b_{i v_i}
              - \sum_j \log(1 + e^{c_j + \sum_{i \text{ rated}} W_{i v_i j}}) \qquad (3)

    A rating that is not there is predicted by its exact distribution given those that are, in which the hidden units
    are summed out. Its expectation is the prediction, since it has the least mean squared error.

    .. math:: p(v_q = k \mid v) \propto
              e^{b_{qk}} \prod_j (1 + e^{c_j + \sum_{i \text{ rated}} W_{i v_i j} + W_{qkj}}) \qquad (4)

    Learning follows the contrastive divergence per rating, with chains that start at each user's own ratings, since a
    chain belongs to the set of items that are rated. The partition function depends on this set as well, and
    ``log_prob`` is that of the ratings given which items were rated. Metrics are the root mean squared error (``rmse``)
    of the expectation of (4) and the negative log-likelihood by it, ``rating_nll``: of ratings that are held out, given
    those that are not, else of each rating given the others.

    References:
        | Restricted Boltzmann Machines for Collaborative Filtering (Salakhutdinov et al., 2007),
          https://doi.org/10.1145/1273496.1273596

    Arguments:
        features: The number of items.
        ratings: The number K of values that a rating has, which are 1 to K.
        units: The number of hidden units.
        gibbs_steps: The number k of Gibbs steps from the data to the end of a chain.
        weight_cost: The factor of the penalty on the weights, :math:`\frac12 \|W\|^2`.
    """

    recipe = Recipe(optimizer="adam", lr=0.01, schedule="linear", batch_size=100, epochs=100)

    def __init__(
        self, features: int, ratings: int, units: int = 100, gibbs_steps: int = 1, weight_cost: float = 1e-4
    ) -> None:
        at_least(1, features=features)
        at_least(2, ratings=ratings)
        super().__init__(features * ratings, units, gibbs_steps, persistent=False, chains=1)
        self.features = features
        self.ratings = ratings
        self.weight_cost = weight_cost

    @classmethod
    def example(cls) -> tuple[Self, Incomplete]:
        random = torch.Generator().manual_seed(0)
        x = torch.randint(1, 4, (32, 5), generator=random).float()
        return cls(features=5, ratings=3, units=3), Incomplete(
            x.where(torch.rand(32, 5, generator=random) < 0.7, torch.nan)
        )

    @property
    def support(self) -> Support:
        return "categorical"

    def check_values(self, x: Tensor) -> None:
        """Refuse what is not a rating, 1 to K; NaN is one that is missing."""
        if x.is_meta:
            return
        strange = x[((x != x.round()) | (x < 1) | (x > self.ratings)) & ~x.isnan()]
        if len(strange):
            raise DataError(
                f"{self.name()} models ratings, whole numbers from 1 to {self.ratings}, NaN where one is missing; the "
                f"data have {strange[0]:.6g}"
            )

    @torch.no_grad()
    def prepare(self, data: Iterable[Incomplete]) -> None:
        """Initialize the visible biases by how often each item has each rating.

        Each has as many more as there are values, in the proportions of all ratings, so that rare items are like all.
        """
        counts = torch.zeros_like(self.origin)
        for batch in data:
            self.check_values(batch.x)
            counts += self._states(batch.x).sum(0)
        each = self._by_item(counts)
        overall = (each.sum(0) + 1) / (each.sum() + self.ratings)
        shares = each + self.ratings * overall
        self.origin.copy_((shares / shares.sum(1, keepdim=True)).log().flatten())
        self.visible_bias.copy_(self.origin)

    def loss(self, batch: Incomplete) -> Terms:
        gap = self.energy(batch.x).sum() - self.energy(self.negatives(batch.x)).sum()
        return {"contrastive_divergence": gap / batch.observed.sum().clamp_min(1), **self._penalty()}

    @torch.no_grad()
    def gradient(self, batch: Incomplete) -> Callable[[], Terms]:
        """The gradient of the loss by hand, with that of the weight cost; only ratings that are there are touched."""
        rated = Rated(batch.x, self.ratings)
        both = rated.codes, self._reached(rated)  # of the data, and of the chains
        up = torch.cat([self._logits(rated, codes) for codes in both])
        share = up.new_full((len(up), 1), 1 / max(1, len(rated)))
        share[: len(batch.x)] *= -1
        found = rated.gathered(both, share * torch.cat([up.sigmoid(), torch.ones_like(share)], 1))
        self.weight.grad = torch.add(found[:, :-1], self.weight, alpha=self.weight_cost)
        self.visible_bias.grad = bias = found[:, -1].contiguous()
        self.hidden_bias.grad = (share * up.sigmoid()).sum(0)

        def terms() -> Terms:
            gap = bias @ self.visible_bias + (share * softplus(up)).sum()
            return {"contrastive_divergence": gap, **self._penalty()}

        return terms

    def energy(self, x: Tensor) -> Tensor:
        """The free energy F of each example, (B,)."""
        self.check_values(x)
        rated = Rated(flat(x, self.features), self.ratings)
        bias = rated.up(rated.codes, self.visible_bias.unsqueeze(1)).squeeze(1)
        return -bias - softplus(self._logits(rated, rated.codes)).sum(-1)  # eq. (3)

    @torch.no_grad()
    def negatives(self, x: Tensor) -> Tensor:
        """Samples of the negative phase: the ratings at the end of the chains, (B, items), of the same items."""
        rated = Rated(flat(x, self.features), self.ratings)
        return rated.table(self._reached(rated) + 1.0).to(x.dtype)

    def _reached(self, rated: Rated) -> Tensor:
        """The ratings, less 1, at the end of chains of ``gibbs_steps`` that start at those that are there."""
        codes = rated.codes
        for _ in range(self.gibbs_steps):
            h = bernoulli(self._logits(rated, codes).sigmoid())
            codes = _categorical(self._by_item(self.visible_bias)[rated.items] + rated.down(h, self.weight), None)
        return codes

    def _logits(self, rated: Rated, codes: Tensor) -> Tensor:
        """The logits of the hidden units given these ratings, (B, units)."""
        return self.hidden_bias + rated.up(codes, self.weight)

    def _penalty(self) -> Terms:
        return {"weight_cost": 0.5 * self.weight_cost * self.weight.square().sum()}

    def _states(self, x: Tensor) -> Tensor:
        """Ratings as one-hot vectors, (B, items times K); one that is missing is all zeros."""
        x = flat(x, self.features)
        codes = one_hot((x.nan_to_num(1.0) - 1).long(), self.ratings) * ~x.isnan().unsqueeze(-1)
        states: Tensor = codes.flatten(1).to(x.dtype)
        return states

    def _examples(self, states: Tensor) -> Tensor:
        codes = self._by_item(states)
        return torch.where(codes.any(-1), codes.argmax(-1) + 1.0, torch.nan).to(states.dtype)

    def _by_item(self, values: Tensor) -> Tensor:
        return values.reshape(*values.shape[:-1], self.features, self.ratings)

    def _draw_visible(self, natural: Tensor, before: Tensor | None, generator: Generator | None) -> Tensor:
        logits = self._by_item(natural)
        rated = torch.ones_like(logits[..., 0]) if before is None else self._by_item(before).sum(-1)
        rows, items = rated.nonzero(as_tuple=True)  # most are missing
        codes = torch.zeros_like(logits)
        codes[rows, items, _categorical(logits[rows, items], generator)] = 1.0  # eq. (1)
        return codes.flatten(1)

    def _log_sums(self, natural: Tensor) -> Tensor:
        return self._by_item(natural).logsumexp(-1)

    def encode(self, x: Tensor) -> Tensor:
        """The probability of each hidden unit to be on, (B, units)."""
        rated = Rated(flat(x, self.features), self.ratings)
        return self._logits(rated, rated.codes).sigmoid()  # eq. (2)

    def predict(self, x: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The ratings of all items, (B, items): those that are given, and a prediction of each that is missing."""
        missing = x.isnan()
        log_share = self.log_conditionals(x, missing)
        if how == "sample":
            found = _categorical(log_share, generator) + 1.0
        else:
            found = self._expected(log_share) if how == "mean" else log_share.argmax(-1) + 1.0
        return x.masked_scatter(missing, found.to(x.dtype))

    def log_conditionals(self, x: Tensor, entries: Tensor) -> Tensor:
        """The log-probability of each rating at these entries, given all other ratings in its row, (entries, K).

        ``entries`` (B, items) marks them; the rows of the result are in their order. What ``x`` has there is not used.
        """
        self.check_values(x)
        x = flat(x, self.features)
        rated = Rated(x, self.ratings)
        up, given = self._logits(rated, rated.codes), x.nan_to_num(0.0).long() - 1  # below 0 where there is none
        weight, bias = self.weight.unflatten(0, (self.features, self.ratings)), self._by_item(self.visible_bias)
        parts = [up.new_zeros(0, self.ratings)]
        for rows, items in zip(*(index.split(PAIRS) for index in entries.nonzero(as_tuple=True)), strict=True):
            own, code = weight[items], given[rows, items]
            itself = own[torch.arange(len(own)), code.clamp_min(0)] * (code >= 0).unsqueeze(1)
            logits = bias[items] + softplus((up[rows] - itself).unsqueeze(1) + own).sum(-1)  # eq. (4)
            parts.append(logits.log_softmax(-1))
        return torch.cat(parts)

    def _expected(self, log_share: Tensor) -> Tensor:
        values = torch.arange(1, self.ratings + 1, device=log_share.device, dtype=log_share.dtype)
        return log_share.exp() @ values

    def _metrics_of(self, terms: Terms, batch: Incomplete) -> Terms:
        entries, truth = (batch.asked, batch.y) if isinstance(batch, HeldOut) else (batch.observed, batch.x)
        log_share, truth = self.log_conditionals(batch.x, entries), truth[entries]
        count = max(1, len(truth))
        surprise = -log_share.gather(1, (truth.long() - 1).unsqueeze(1)).sum()
        square = (self._expected(log_share) - truth).square().sum()
        return {"rmse": (square / count).sqrt(), "rating_nll": surprise / count}

    def _log_prob(self, x: Tensor) -> Tensor:
        rated = self._by_item(self._states(x)).sum(-1)  # (B, items)
        parts = [
            (h @ self.hidden_bias + rated @ self._log_sums(self._down(h)).T).logsumexp(-1)
            for h in self._hidden_states()
        ]
        return -self.energy(x) - torch.stack(parts).logsumexp(0)

    @torch.no_grad()
    def _estimate(self, x: Tensor, samples: int | None, generator: Generator | None) -> Tensor:
        """-F(x) - log Z, with a log Z of each row: chains are annealed over the items that it has rated."""
        chains = self.CHAINS if samples is None else samples
        rows = self._states(x).repeat(chains, 1)
        start = self._draw_visible(self.origin.expand_as(rows), rows, generator)
        rated = self._by_item(self._states(x)).sum(-1)
        at_first = rated @ self._log_sums(self.origin) + self.units * math.log(2)
        weights = self._anneal(start, self._betas(None), generator).view(chains, len(x))
        return -self.energy(x) - at_first - weights.logsumexp(0) + math.log(chains)

    def base(self) -> Distribution:
        """Independent ratings of all items, each as often as in the data."""
        logits = self._by_item(self.origin)
        ratings = Independent(OneHotCategorical(logits=logits, validate_args=False), 1, validate_args=False)
        whole = ReshapeTransform(logits.shape, self.origin.shape)
        return TransformedDistribution(ratings, [whole], validate_args=False)


def _categorical(logits: Tensor, generator: Generator | None) -> Tensor:
    """Categorical samples, (...), by the Gumbel trick: the largest of the logits with Gumbel noise."""
    noise = torch.rand(logits.shape, generator=generator, device=logits.device, dtype=logits.dtype)
    return (logits - (-noise.log()).log()).argmax(-1)

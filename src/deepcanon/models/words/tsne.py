"""t-distributed stochastic neighbor embedding (t-SNE)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, DataError, Descend, Model, Recipe, Terms, Turn, UsageError
from deepcanon.core.checks import at_least, flat
from deepcanon.models.words._neighbor_pairs import (
    Pairs,
    conditional_probabilities,
    pairs_of,
    squared_distances,
)

PLACING = 80
"""The steps in which a new example finds its place."""


class TSNE(Model[Batch]):
    r"""A map of the training examples in the plane that keeps near neighbors near each other.

    Neighbors in the data have the probabilities of a Gaussian around each example, whose width is such that the
    perplexity, the effective number of neighbors, is the same for all; those in the map have heavier tails:

    .. math:: p_{j \mid i} \propto e^{-\beta_i |x_i - x_j|^2}, \qquad p_{ij} = \frac{p_{j \mid i} + p_{i \mid j}}{2n}
              \qquad (1)

    .. math:: q_{ij} = \frac{w_{ij}}{\sum_{k \ne l} w_{kl}}, \qquad w_{ij} = \frac{1}{1 + |y_i - y_j|^2} \qquad (2)

    .. math:: \mathcal L = \mathrm{KL}(P \,\|\, Q) = \sum_{ij} p_{ij} \log \frac{p_{ij}}{q_{ij}}, \qquad
              \frac{\partial \mathcal L}{\partial y_i} = 4 \sum_j (p_{ij} - q_{ij})\, w_{ij}\, (y_i - y_j) \qquad (3)

    The parameters are the points y themselves, one for each training example, so that a step takes all examples at
    once. In the first quarter of the training P is exaggerated, which gathers clusters while the map is still small.
    It begins as the principal components. A new example goes where its own neighbors ask for, while all others stay:

    .. math:: y = \arg\min_y \mathrm{KL}(p_{\cdot \mid x} \,\|\, q_{\cdot \mid y}), \qquad
              q_{j \mid y} \propto (1 + |y - y_j|^2)^{-1} \qquad (4)

    The loss of examples that are not in the map is (4). Up to 5,000 examples all pairs count; of more, only pairs of
    near neighbors attract each other, and scikit-learn's Barnes-Hut tree has the sum over the others.

    References:
        | Visualizing Data using t-SNE (van der Maaten and Hinton, 2008),
          https://www.jmlr.org/papers/v9/vandermaaten08a.html
        | Accelerating t-SNE using Tree-Based Algorithms (van der Maaten, 2014),
          https://www.jmlr.org/papers/v15/vandermaaten14a.html

    Arguments:
        features: The number of features of an example.
        examples: The number of training examples.
        latent: The dimension of the map.
        perplexity: The effective number of neighbors of an example.
        exaggeration: The factor of P in the first quarter of the training.
    """

    recipe = Recipe(optimizer="adam", lr=3.0, schedule="cosine", batch_size=1_000_000, epochs=500, keep_weights="last")

    data: Tensor

    def __init__(
        self, features: int, examples: int, latent: int = 2, perplexity: float = 30.0, exaggeration: float = 12.0
    ) -> None:
        super().__init__()
        at_least(1, features=features, latent=latent)
        at_least(4, examples=examples)
        if not 1 < perplexity < examples - 1:
            raise UsageError(
                f"perplexity is a number of neighbors: above 1, and below those that an example has, {examples - 1} "
                f"(got {perplexity})"
            )
        if latent > features:
            raise UsageError(f"a map has at most as many dimensions as the data, {features} (got latent={latent})")
        if exaggeration < 1:
            raise UsageError(f"exaggeration is a factor of at least 1 (got {exaggeration})")
        self.features, self.examples, self.latent = features, examples, latent
        self.perplexity, self.exaggeration = perplexity, exaggeration
        self.points = nn.Parameter(1e-4 * torch.randn(examples, latent))  # y
        self.register_buffer("data", torch.zeros(examples, features))  # x
        self._known: Pairs | None = None
        self._like: tuple[torch.device, torch.dtype, int] | None = None

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(24, 5, generator=torch.Generator().manual_seed(0)) + torch.arange(24).unsqueeze(1) % 3
        model = cls(features=5, examples=24, perplexity=5.0)
        model.prepare([Batch(x)])
        return model, Batch(x)

    def turns(self) -> Sequence[Turn[Batch]]:
        early = partial(self.gradient, exaggeration=self.exaggeration)
        return [
            Descend(self.loss, [self.points], gradient=early, share=(0, 0.25), name="exaggerated"),
            Descend(self.loss, [self.points], gradient=self.gradient, share=(0.25, 1)),
        ]

    @torch.no_grad()
    def prepare(self, data: Iterable[Batch]) -> None:
        """Keep the examples, and begin the map with their principal components."""
        x = torch.cat([flat(batch.x, self.features) for batch in data]).to(self.data)
        if len(x) != self.examples:
            raise DataError(f"the map has a point for each of {self.examples} training examples, got {len(x)}")
        self.data.copy_(x)
        centered = x - x.mean(0)
        _, directions = torch.linalg.eigh(centered.T @ centered)
        plane = centered @ directions.flip(1)[:, : self.latent]
        self.points.copy_(1e-4 * plane / plane[:, 0].std().clamp_min(torch.finfo(x.dtype).tiny))

    def loss(self, batch: Batch) -> Terms:
        x = flat(batch.x, self.features).to(self.data)
        rows = self._rows(x, batch.positions)
        if rows is None:
            return {"kl": self._placed(x)[1].mean()}
        return {"kl": self._pairs.cost(self.points, rows) * (self.examples / len(rows))}  # eq. (3)

    def gradient(self, batch: Batch, exaggeration: float = 1.0) -> Callable[[], Terms]:
        """The gradient (3) with P exaggerated: by hand where the batch is the whole training data, as it should be."""
        rows = self._rows(flat(batch.x, self.features).to(self.data), batch.positions)
        if rows is None:
            raise DataError("a map is trained on the examples that it was prepared with, and these are others")
        share = self.examples / len(rows)
        if len(rows) == self.examples:
            with torch.no_grad():
                self.points.grad = self._pairs.gradient(self.points, exaggeration)  # eq. (3)
        else:
            cost = self._pairs.cost(self.points, rows, exaggeration) * share
            (self.points.grad,) = torch.autograd.grad(cost, [self.points])
        return lambda: {"kl": self._pairs.cost(self.points.detach(), rows) * share}

    def encode(self, x: Tensor) -> Tensor:
        """The places of examples in the map, (B, latent): those of training examples, and (4) of others."""
        return self._placed(flat(x, self.features).to(self.data))[0]

    def forward(self, x: Tensor) -> Tensor:
        """The places of examples in the map."""
        return self.encode(x)

    @property
    def _pairs(self) -> Pairs:
        """The pairs of the data, which are found once: p of eq. (1), and q and its gradient, eqs. (2) and (3)."""
        like = (self.data.device, self.data.dtype, self.data._version)
        if self._known is None or self._like != like:
            self._known, self._like = pairs_of(self.data, self.perplexity), like  # eqs. (1) and (2)
        return self._known

    def _rows(self, x: Tensor, positions: Tensor | None) -> Tensor | None:
        """Where these examples stand in the training data; None if they are others."""
        if len(x) <= self.examples:
            rows = torch.arange(len(x), device=x.device) if positions is None else positions
            if x.is_meta or (int(rows.max()) < self.examples and torch.equal(self.data[rows], x)):
                return rows
        nearest, same = self._found(x)
        return nearest if bool(same.all()) else None

    def _found(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The training example nearest to each example, and whether they are the same."""
        nearest = squared_distances(x, self.data).argmin(1)
        return nearest, (self.data[nearest] == x).all(1)

    @torch.no_grad()
    def _placed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The place of each example, (B, latent), and its divergence there, (B,)."""
        nearest, same = self._found(x)
        p = conditional_probabilities(squared_distances(x, self.data), self.perplexity)
        y = self.points[nearest]
        for _ in range(PLACING):  # half of the step to where neighbors alone would take it
            w = 1 / (1 + squared_distances(y, self.points))
            pull = (p - w / w.sum(1, keepdim=True)) * w
            uphill = pull.sum(1, keepdim=True) * y - pull @ self.points
            y = y - 0.5 * uphill / (p * w).sum(1, keepdim=True)
        y = torch.where(same.unsqueeze(1), self.points[nearest], y)
        log_q = -squared_distances(y, self.points).log1p()
        log_q = log_q - log_q.logsumexp(1, keepdim=True)
        return y, (torch.special.xlogy(p, p) - p * log_q).sum(1)  # eq. (4)

"""The baseline of ratings: some users rate higher than others, and some items are rated higher.

References:
    | Factor in the Neighbors: Scalable and Accurate Collaborative Filtering (Koren, 2010), section 2.1,
      https://doi.org/10.1145/1644873.1644874
"""

from __future__ import annotations

from collections.abc import Generator as Parts
from typing import Any, Self

import torch
from torch import Generator, Tensor

from deepcanon.comparison.baselines.contract import BaselineMethod
from deepcanon.core import How, Incomplete, UsageError
from deepcanon.data import Dataset

DAMPING = 5.0
"""So many ratings without any deviation are added to those of each user and item, so that few say little."""
ROUNDS = 20


class RatingBiases(BaselineMethod):
    r"""The mean of all ratings, plus how far those of the user and of the item lie from it.

    .. math:: r_{ui} = \mu + b_u + b_i, \qquad b_i = \frac{\sum_u (r_{ui} - \mu - b_u)}{n_i + 5}, \quad
              b_u = \frac{\sum_i (r_{ui} - \mu - b_i)}{n_u + 5}
    """

    name = "rating_biases"
    label = "biases of users and items"

    def __init__(self, train: Tensor, ratings: int) -> None:
        self.ratings = ratings
        self.mean = train.nanmean()
        self.items = torch.zeros_like(train[:1])
        for _ in range(ROUNDS):
            users = self._users(train)
            self.items = _damped(train - self.mean - users, 0)

    @classmethod
    def suits(cls, data: Dataset[Any]) -> bool:
        return isinstance(data.train, Incomplete) and "ratings" in data.sizes

    @classmethod
    def fitting(cls, data: Dataset[Any], seed: int) -> Parts[Self]:
        yield cls(data.train.x.double().cpu(), data.sizes["ratings"])

    def predict(self, x: Tensor, *, how: How = "mode", generator: Generator | None = None) -> Tensor:
        """The rating of each item by each user, (B, items), from the ratings ``x`` that the user has given."""
        if how == "sample" or generator is not None:
            raise UsageError(f"{self.label} draw nothing; ask for the mode or the mean")
        found = (self.mean + self._users(x.double().cpu()) + self.items).clamp(1, self.ratings)
        return found if how == "mean" else found.round()

    def _users(self, x: Tensor) -> Tensor:
        return _damped(x - self.mean - self.items, 1)


def _damped(deviation: Tensor, dim: int) -> Tensor:
    there = ~deviation.isnan()
    return deviation.nansum(dim, keepdim=True) / (there.sum(dim, keepdim=True) + DAMPING)

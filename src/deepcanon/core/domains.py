"""Batches of two domains: unpaired examples of each, or examples with their counterparts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor

from deepcanon.core.batch import AnyBatch
from deepcanon.core.errors import DataError


@dataclass(frozen=True, eq=False)
class TwoDomains(AnyBatch):
    """Unpaired examples of two domains: ``x`` of the one and ``y`` of the other, which may be more or fewer.

    The length is that of the larger domain. The smaller one goes round, so that a selection holds as many of both, and
    each domain has an order of its own: positions are pairs, (B, 2), a row of ``x`` and a row of ``y``, or one number
    for both, (B,).

    >>> batch = TwoDomains(torch.zeros(3, 2), torch.arange(5.0).view(5, 1))
    >>> len(batch), batch.select(torch.tensor([[0, 4], [2, 1]])).y.flatten()
    (5, tensor([4., 1.]))
    """

    noun = "two domains"
    y: Tensor

    def __post_init__(self) -> None:
        if max(len(self.x), len(self.y)) > 0 and 0 in (len(self.x), len(self.y)):
            raise DataError(f"each domain needs examples: got {len(self.x)} of x and {len(self.y)} of y")

    def __len__(self) -> int:
        return max(self.x.shape[0], self.y.shape[0])

    def order(self, size: int, generator: Generator) -> Tensor:
        """An order of each domain, (length, 2); the smaller one is shuffled anew at every round."""
        return torch.stack([self._round(len(domain), generator) for domain in (self.x, self.y)], 1)

    def select(self, index: Tensor) -> Self:
        """The examples at these positions; beyond the end of a domain it begins again."""
        rows = index if index.ndim == 2 else index.unsqueeze(1).expand(-1, 2)
        of_x, of_y = (column % max(len(domain), 1) for column, domain in zip(rows.T, (self.x, self.y), strict=True))
        return type(self)(self.x.index_select(0, of_x), self.y.index_select(0, of_y))

    def part(self, index: Tensor) -> Self:
        """The examples at these positions as data to select from, none of them twice."""
        return type(self)(*(domain.index_select(0, index[index < len(domain)]) for domain in (self.x, self.y)))

    def _round(self, count: int, generator: Generator) -> Tensor:
        rounds = -(-len(self) // count)
        return torch.cat([torch.randperm(count, generator=generator) for _ in range(rounds)])[: len(self)]


@dataclass(frozen=True, eq=False)
class ImagePairs(TwoDomains):
    """Examples ``x``, each with its image ``y`` in the other domain: the labels of a photo, say, and the photo.

    A model of unpaired domains learns from them as well, without the pairing.
    """

    noun = "pairs of images"

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise DataError(f"every example needs one image: got {len(self.x)} examples and {len(self.y)} images")

    def order(self, size: int, generator: Generator) -> Tensor:
        return AnyBatch.order(self, size, generator)

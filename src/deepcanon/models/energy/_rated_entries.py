"""The ratings that are there, as a list: of a table of users and items most are missing."""

from __future__ import annotations

import warnings
from functools import cached_property

import torch
from torch import Tensor

from deepcanon.core.sparse import Pattern, Sparse


class Rated:
    """The entries of a table of ratings, (B, items), that are there, row by row, and products with one-hot ratings.

    A rating of K values is a vector of K places, of which one is 1, and all are 0 where it is missing. The list of
    those that are there takes a small part of the time of the whole table.
    """

    def __init__(self, x: Tensor, ratings: int) -> None:
        self.shape, self.ratings = (x.shape[0], x.shape[1] * ratings), ratings
        self.rows, self.items = (~x.isnan()).nonzero(as_tuple=True)
        self.codes = x[self.rows, self.items].long() - 1
        counts = torch.zeros(len(x) + 1, dtype=torch.long, device=x.device)
        self.starts = counts.index_add_(0, self.rows + 1, torch.ones_like(self.rows)).cumsum(0)

    def __len__(self) -> int:
        return len(self.rows)

    def places(self, codes: Tensor) -> Tensor:
        """Which place of its row is 1, of each rating, where the ratings less 1 are ``codes``, (entries,)."""
        return self.items * self.ratings + codes

    def up(self, codes: Tensor, weight: Tensor) -> Tensor:
        """The product of the one-hot rows with a matrix, (B, columns): sums of its rows."""
        ones = torch.ones(len(self), dtype=weight.dtype, device=weight.device)
        return Sparse(Pattern(self.starts, self.places(codes), self.shape), ones) @ weight

    def down(self, h: Tensor, weight: Tensor) -> Tensor:
        """Of the product ``h @ weight.T``, the places of the items that are rated, (entries, ratings)."""
        found: Tensor = torch.sparse.sampled_addmm(self._every_place(h.dtype), h, weight.T, beta=0.0)
        return found.values().view(-1, self.ratings)

    def gathered(self, both: tuple[Tensor, Tensor], rows: Tensor) -> Tensor:
        """At each place the sum of the rows of the ratings that have it, (places, columns).

        These are two ratings of each entry, less 1, the second with the second half of the ``rows``, (2 B, columns).
        """
        places = torch.cat([self.places(codes) for codes in both])
        order = places.argsort()  # the rows of one place stand next to each other, as in a bag of embeddings
        columns = torch.cat([self.rows, self.rows + self.shape[0]])[order]
        counts = places.bincount(minlength=self.shape[1])
        pattern = Pattern(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), columns, (self.shape[1], len(rows)))
        return Sparse(pattern, torch.ones_like(columns, dtype=rows.dtype)) @ rows

    def table(self, values: Tensor) -> Tensor:
        """The values of the entries in their table, (B, items), NaN where there is none."""
        empty = values.new_full((self.shape[0], self.shape[1] // self.ratings), torch.nan)
        return empty.index_put((self.rows, self.items), values)

    def _every_place(self, dtype: torch.dtype) -> Tensor:
        zeros = torch.zeros(len(self._columns), dtype=dtype, device=self.rows.device)
        with warnings.catch_warnings():  # that sparse tensors are in beta state, and are not checked
            warnings.simplefilter("ignore", UserWarning)
            return torch.sparse_csr_tensor(self.starts * self.ratings, self._columns, zeros, self.shape)

    @cached_property
    def _columns(self) -> Tensor:
        return self.places(torch.arange(self.ratings, device=self.items.device).unsqueeze(1)).T.flatten()

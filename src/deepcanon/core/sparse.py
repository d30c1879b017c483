"""Sparse matrices in compressed rows (CSR) with fast products and gradients of products with dense ones."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from deepcanon.core.display import Shown
from deepcanon.core.errors import DataError

PIECE = 16_384
"""How many entries are gathered at a time."""


class Pattern(Shown):
    """The sparsity pattern of a matrix: row i has entries in ``columns[starts[i] : starts[i + 1]]``, in order.

    A pattern is shared by all matrices that differ in their values only, and with it the work of sorting it.
    """

    def __init__(self, starts: Tensor, columns: Tensor, shape: tuple[int, int]) -> None:
        self.starts, self.columns, self.shape = starts, columns, shape

    def _facts(self) -> dict[str, Any]:
        return {"shape": self.shape, "entries": len(self.columns)}

    @cached_property
    def rows(self) -> Tensor:
        """The row of each entry."""
        counts = self.starts.diff()
        numbers = torch.arange(self.shape[0], dtype=self.starts.dtype, device=self.starts.device)
        return numbers.repeat_interleave(counts, output_size=len(self.columns))

    @cached_property
    def places(self) -> Tensor:
        """The numbers of the entries, from 0 on."""
        return torch.arange(len(self.columns), dtype=self.columns.dtype, device=self.columns.device)

    @cached_property
    def turned(self) -> tuple[Pattern, Tensor]:
        """The pattern of the transpose, which is this very object if they are the same, and its entries' order here."""
        pattern, order = sorted_pattern(self.columns, self.rows, (self.shape[1], self.shape[0]))
        return (self if _alike(pattern, self) else pattern), order

    def to(self, device: torch.device | str) -> Pattern:
        return Pattern(self.starts.to(device), self.columns.to(device), self.shape)


class Sparse(Shown):
    """A sparse matrix, stored by rows; entries with the same row and column add up.

    ``sparse @ dense`` is the product with a matrix or vector. Its gradient multiplies by the transpose, which is made
    once for each pattern, and not at every step, and is the matrix itself where that is symmetric. Values that require
    grad get theirs, too.

    >>> matrix = Sparse.of(torch.tensor([[0.0, 2.0], [1.0, 0.0]]))
    >>> matrix @ torch.tensor([1.0, 10.0])
    tensor([20.,  1.])
    """

    def __init__(self, pattern: Pattern, values: Tensor) -> None:
        self.pattern, self.values = pattern, values

    def _facts(self) -> dict[str, Any]:
        return {"shape": self.pattern.shape, "entries": self.values}

    @classmethod
    def from_entries(cls, rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Sparse:
        """The matrix with these values in these rows and columns, given in any order."""
        pattern, order = sorted_pattern(rows, columns, shape)
        return cls(pattern, values[order])

    @classmethod
    def of(cls, matrix: Tensor) -> Sparse:
        """The entries of a matrix of torch that are not zero; of a sparse tensor, those that it lists."""
        if matrix.ndim != 2:
            raise DataError(f"a sparse matrix has rows and columns, got the shape {tuple(matrix.shape)}")
        listed = matrix.to_sparse_coo().coalesce()
        rows, columns = listed.indices()
        return cls.from_entries(rows, columns, listed.values(), (matrix.shape[0], matrix.shape[1]))

    @property
    def shape(self) -> tuple[int, int]:
        return self.pattern.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        return self.values.device

    @cached_property
    def T(self) -> Sparse:
        """The transpose; the matrix itself if it is symmetric."""
        pattern, order = self.pattern.turned
        values = self.values[order]
        symmetric = pattern is self.pattern and not values.is_meta and torch.equal(values, self.values)
        return self if symmetric else Sparse(pattern, values)

    def blocks(self, starts: Tensor, sizes: Tensor) -> Sparse:
        """Of a block-diagonal matrix, the one with only the blocks that begin at these rows, in this order.

        >>> matrix = Sparse.of(torch.diag(torch.tensor([1.0, 2.0, 3.0])))
        >>> matrix.blocks(torch.tensor([2, 0]), torch.tensor([1, 1])).to_dense()
        tensor([[3., 0.],
                [0., 1.]])
        """
        first = self.pattern.starts
        begin, rows = first[starts], ranges(starts, sizes)
        counts = first[starts + sizes] - begin
        entries = ranges(begin, counts)
        moved = (sizes.cumsum(0) - sizes - starts).to(first.dtype).repeat_interleave(counts, output_size=len(entries))
        columns = self.pattern.columns.index_select(0, entries) + moved
        ends = (first[rows + 1] - first[rows]).cumsum(0, dtype=first.dtype)
        pattern = Pattern(torch.cat([ends.new_zeros(1), ends]), columns, (len(rows), len(rows)))
        chosen = Sparse(pattern, self.values.index_select(0, entries))
        if self.T is self:
            chosen.__dict__["T"] = chosen  # known without sorting
        return chosen

    def with_values(self, values: Tensor) -> Sparse:
        """The matrix with other values and the same pattern."""
        return Sparse(self.pattern, values)

    def to(self, target: torch.device | str | torch.dtype) -> Sparse:
        """The matrix on another device, or in another precision."""
        if isinstance(target, torch.dtype):
            return self if target == self.dtype else self.with_values(self.values.to(target))
        return self if torch.device(target) == self.device else Sparse(self.pattern.to(target), self.values.to(target))

    def to_dense(self) -> Tensor:
        zeros = self.values.new_zeros(self.shape)
        indices = (self.pattern.rows.long(), self.pattern.columns.long())
        return zeros.index_put(indices, self.values, accumulate=True)

    def __matmul__(self, dense: Tensor) -> Tensor:
        if dense.ndim not in (1, 2) or dense.shape[0] != self.shape[1]:
            raise DataError(
                f"a matrix of {self.shape[0]} rows and {self.shape[1]} columns cannot be multiplied by "
                f"the shape {tuple(dense.shape)}; it needs {self.shape[1]} rows"
            )
        columns = dense.unsqueeze(1) if dense.ndim == 1 else dense
        product: Tensor = _Product.apply(self.values, columns.to(self.dtype), self)  # type: ignore[no-untyped-call]
        return product.squeeze(1) if dense.ndim == 1 else product


class _Product(torch.autograd.Function):
    """``matrix @ dense``; torch's own gradient of it transposes the matrix at every step."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, dense: Tensor, matrix: Sparse) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(dense if values.requires_grad else None)
        # A bag of embeddings is a row of the matrix: torch's kernel for it runs several times faster than that for CSR.
        # Detached tensors spare it the bookkeeping for a gradient of its own.
        table, pattern = dense.detach().contiguous(), matrix.pattern
        product: Tensor = torch.embedding_bag(
            table, pattern.columns, pattern.starts, False, 0, False, values.detach(), True
        )[0]
        return product

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        matrix, (dense,) = ctx.matrix, ctx.saved_tensors
        of_values = of_dense = None
        if ctx.needs_input_grad[0]:
            of_values = entry_dots(matrix.pattern, gradient, dense)
        if ctx.needs_input_grad[1]:
            of_dense = matrix.T @ gradient
        return of_values, of_dense, None


def entry_dots(pattern: Pattern, left: Tensor, right: Tensor) -> Tensor:
    """Of the product of ``left`` (rows, width) with the transpose of ``right`` (columns, width) a pattern's entries.

    >>> pattern = Sparse.of(torch.tensor([[0.0, 1.0], [1.0, 1.0]])).pattern
    >>> entry_dots(pattern, torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0], [5.0]]))
    tensor([ 5.,  6., 10.])
    """
    dots: Tensor = _EntryDots.apply(left, right, pattern)  # type: ignore[no-untyped-call]
    return dots


class _EntryDots(torch.autograd.Function):
    """The entries of ``left @ right.T`` that a pattern has, piece by piece: all rows at once do not fit in a cache."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(left, right)
        pieces = zip(pattern.rows.split(PIECE), pattern.columns.split(PIECE), strict=True)
        found = [left.index_select(0, here).mul_(right.index_select(0, there)).sum(-1) for here, there in pieces]
        return torch.cat(found) if found else left.new_zeros(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        left, right = ctx.saved_tensors
        matrix = Sparse(ctx.pattern, gradient)
        of_left = matrix @ right if ctx.needs_input_grad[0] else None
        of_right = matrix.T @ left if ctx.needs_input_grad[1] else None
        return of_left, of_right, None


def ranges(starts: Tensor, counts: Tensor) -> Tensor:
    """The numbers from each start on, so many as its count says, one range after the other.

    >>> ranges(torch.tensor([5, 0]), torch.tensor([2, 3]))
    tensor([5, 6, 0, 1, 2])
    """
    total = int(counts.sum())
    shift = (starts - counts.cumsum(0) + counts).repeat_interleave(counts, output_size=total)
    return torch.arange(total, device=starts.device) + shift


def sorted_pattern(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> tuple[Pattern, Tensor]:
    """The pattern of these entries, by rows and then by columns, and the order that sorts them so."""
    order = torch.argsort(rows.long() * shape[1] + columns, stable=True)
    counts = torch.zeros(shape[0] + 1, dtype=torch.long, device=rows.device)
    starts = counts.index_add(0, rows.long() + 1, torch.ones_like(rows, dtype=torch.long)).cumsum(0)
    short = max(*shape, len(rows)) < 2**31  # indices of half the size are read in less time
    kind = torch.int32 if short else torch.int64
    return Pattern(starts.to(kind), columns[order].to(kind), shape), order


def _alike(left: Pattern, right: Pattern) -> bool:
    return (
        left.shape == right.shape
        and not left.columns.is_meta
        and torch.equal(left.starts, right.starts)
        and torch.equal(left.columns, right.columns)
    )

"""Message passing by name: the sum, mean or maximum over neighbors, and softmaxes over them, in one pass each way.

Torch gathers rows of features fast and adds scattered ones slowly. Edges are therefore sorted by their targets, and
what is gathered along them in the forward pass is added up row by row, in order, in the backward pass.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import torch
from torch import Tensor

from deepcanon.core import DataError, Graph, Sparse
from deepcanon.core.checks import one_of
from deepcanon.core.sparse import PIECE, Pattern

Aggregation = Literal["sum", "mean", "max"]
AGGREGATIONS: tuple[Aggregation, ...] = ("sum", "mean", "max")
KERNEL = "_sparse_mm_reduce_impl"
"""The operation of torch that multiplies a sparse matrix by maxima, which it has on a CPU."""


def aggregate(x: Tensor | Sparse, graph: Graph | Tensor, how: Aggregation) -> Tensor:
    """The sum, mean or largest value of the features of every node's neighbors, and 0 for a node without any.

    The weights of edges count in sums and means; an edge of any weight counts in a maximum.

    >>> aggregate(torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([[1, 2], [0, 0]]), "mean")
    tensor([[4.],
            [0.],
            [0.]])
    """
    one_of(AGGREGATIONS, how=how)
    graph = Graph.of(graph, x.shape[0])
    kind = torch.promote_types(x.dtype, torch.float32)  # sums over neighbors keep their digits
    x = x.to_dense()
    if how == "max":
        return row_max(x, graph.operator("adjacency", kind).pattern)
    return (graph.operator("adjacency" if how == "sum" else "random_walk", kind) @ x).to(x.dtype)


def neighbor_max(x: Tensor, graph: Graph | Tensor) -> Tensor:
    """Max aggregation: the largest value of every feature among a node's neighbors, and 0 for a node without any.

    >>> neighbor_max(torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([[1, 2], [0, 0]]))
    tensor([[5.],
            [0.],
            [0.]])
    """
    return aggregate(x, graph, "max")


def row_max(x: Tensor, pattern: Pattern) -> Tensor:
    """The largest value of every column of ``x`` among the entries of each row of a pattern, 0 in an empty row.

    The gradient goes to the first of equal values.
    """
    if pattern.shape[1] != len(x):
        raise DataError(f"a pattern of {pattern.shape[1]} columns needs as many rows of features, got {len(x)}")
    largest: Tensor = _RowMax.apply(x, pattern)  # type: ignore[no-untyped-call]
    return largest


def row_sum(values: Tensor, pattern: Pattern) -> Tensor:
    """The sums of ``values`` (entries, width) over the entries of each row of a pattern, (rows, width)."""
    found: Tensor = _RowSum.apply(values, pattern)  # type: ignore[no-untyped-call]
    return found


def at_rows(x: Tensor, pattern: Pattern) -> Tensor:
    """The row of ``x`` (rows, width) for each entry of a pattern, (entries, width): that of an edge's target."""
    found: Tensor = _AtRows.apply(x, pattern)  # type: ignore[no-untyped-call]
    return found


def at_columns(x: Tensor, pattern: Pattern) -> Tensor:
    """The row of ``x`` (columns, width) of each entry's column, (entries, width): that of an edge's source."""
    found: Tensor = _AtColumns.apply(x, pattern)  # type: ignore[no-untyped-call]
    return found


def head_sums(weights: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
    """The sums over each row's entries of the columns' rows of ``x`` in weights that each head has of its own.

    ``weights`` are (entries, heads), ``x`` is (columns, heads * width) and so is the result, (rows, heads * width).

    >>> pattern = Sparse.of(torch.tensor([[1.0, 1.0], [0.0, 1.0]])).pattern
    >>> head_sums(torch.tensor([[1.0, 2.0], [1.0, 0.0], [5.0, 5.0]]), torch.tensor([[1.0, 1.0], [3.0, 3.0]]), pattern)
    tensor([[ 4.,  2.],
            [15., 15.]])
    """
    found: Tensor = _HeadSums.apply(weights, x, pattern)  # type: ignore[no-untyped-call]
    return found


def head_dots(left: Tensor, right: Tensor, pattern: Pattern, heads: int) -> Tensor:
    """The inner products of ``left`` at each entry's row with ``right`` at its column by head, (entries, heads)."""
    found: Tensor = _HeadDots.apply(left, right, pattern, heads)  # type: ignore[no-untyped-call]
    return found


def row_softmax(scores: Tensor, pattern: Pattern) -> Tensor:
    """The softmax of ``scores`` (entries, heads) among the entries of each row of a pattern.

    >>> pattern = Sparse.of(torch.tensor([[1.0, 1.0], [0.0, 1.0]])).pattern
    >>> row_softmax(torch.zeros(3, 1), pattern).flatten()
    tensor([0.5000, 0.5000, 1.0000])
    """
    weights: Tensor = _RowSoftmax.apply(scores, pattern)  # type: ignore[no-untyped-call]
    return weights


class _RowSoftmax(torch.autograd.Function):
    """In one place: an entry has a score for each head, and what each step would store anew is as long as the edges."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, pattern: Pattern) -> Tensor:
        lengths = pattern.starts.diff().long()
        largest = torch.segment_reduce(scores.contiguous(), "max", lengths=lengths, axis=0, unsafe=True)
        weights = largest.index_select(0, pattern.rows).neg_().add_(scores).exp_()
        weights.div_(row_sum(weights, pattern).index_select(0, pattern.rows))
        ctx.pattern = pattern
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        pulled = weights * gradient
        return torch.addcmul(pulled, weights, at_rows(row_sum(pulled, ctx.pattern), ctx.pattern), value=-1), None


class _HeadSums(torch.autograd.Function):
    """All heads are gathered and weighed at once, and so few rows at a time that they stay in the cache."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(weights, x)
        found = x.new_empty(pattern.shape[0], x.shape[1])
        if pattern.starts.is_meta or not len(pattern.columns):
            return found.zero_()
        heads = weights.shape[1]
        each = max(1, PIECE * pattern.shape[0] // len(pattern.columns))
        for first in range(0, pattern.shape[0], each):
            last = min(first + each, pattern.shape[0])
            begin, end = int(pattern.starts[first]), int(pattern.starts[last])
            rows = x.index_select(0, pattern.columns[begin:end]).unflatten(1, (heads, -1))
            rows.mul_(weights[begin:end].unsqueeze(2))
            starts = pattern.starts[first : last + 1] - begin
            found[first:last] = torch.embedding_bag(
                rows.flatten(1), pattern.places[: end - begin], starts, False, 0, False, None, True
            )[0]
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weights, x = ctx.saved_tensors
        of_weights = of_x = None
        if ctx.needs_input_grad[0]:
            of_weights = head_dots(gradient, x, ctx.pattern, weights.shape[1])
        if ctx.needs_input_grad[1]:
            turned, order = ctx.pattern.turned
            of_x = head_sums(weights.index_select(0, order), gradient, turned)
        return of_weights, of_x, None


class _HeadDots(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, pattern: Pattern, heads: int) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(left, right)
        pieces = zip(pattern.rows.split(PIECE), pattern.columns.split(PIECE), strict=True)
        found = [
            left.index_select(0, here).mul_(right.index_select(0, there)).unflatten(1, (heads, -1)).sum(-1)
            for here, there in pieces
        ]
        return torch.cat(found) if found else left.new_zeros(0, heads)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        left, right = ctx.saved_tensors
        of_left = head_sums(gradient, right, ctx.pattern) if ctx.needs_input_grad[0] else None
        of_right = None
        if ctx.needs_input_grad[1]:
            turned, order = ctx.pattern.turned
            of_right = head_sums(gradient.index_select(0, order), left, turned)
        return of_left, of_right, None, None


class _RowMax(torch.autograd.Function):
    """The largest values, and of which entries they are: by torch's product of a CSR matrix by maxima where it has one.

    That is several times faster than bags. Torch keeps it to itself, so that a version without it, or a device that it
    is not made for, has the same result by other means.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern, ctx.shape = pattern, x.shape
        if x.is_meta or not x.numel() or not len(pattern.columns):
            ctx.save_for_backward(None)
            return x.new_zeros(pattern.shape[0], x.shape[1])
        own = x.device.type == "cpu" and hasattr(torch.ops.aten, KERNEL)
        largest, chosen = (_by_kernel if own else _by_scattering)(x, pattern, ctx.needs_input_grad[0])
        ctx.save_for_backward(chosen)
        return largest.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (chosen,) = ctx.saved_tensors
        (nodes, width), columns = ctx.shape, ctx.pattern.columns
        if chosen is None:
            return gradient.new_zeros(ctx.shape), None
        # Of an empty row the entry beyond the last one is chosen, whose gradient goes to a row beyond the last one.
        starts = torch.cat([columns.long(), torch.tensor([nodes], device=columns.device)]) * width
        places = starts.index_select(0, chosen.flatten()).view(-1, width) + torch.arange(width, device=columns.device)
        added = gradient.new_zeros((nodes + 1) * width).scatter_add(0, places.flatten(), gradient.flatten())
        return added.view(-1, width)[:nodes], None


def _by_kernel(x: Tensor, pattern: Pattern, needed: bool) -> tuple[Tensor, Tensor]:
    """The largest values by torch's own kernel; it says of which entries only with a gradient in view."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        ones = x.new_ones(len(pattern.columns))
        matrix = torch.sparse_csr_tensor(pattern.starts, pattern.columns, ones, pattern.shape, check_invariants=False)
    with torch.set_grad_enabled(needed):
        rows = x.detach().contiguous().requires_grad_(needed)
        largest, chosen = getattr(torch.ops.aten, KERNEL)(matrix, rows, "amax")
    return largest, chosen


def _by_scattering(x: Tensor, pattern: Pattern, needed: bool) -> tuple[Tensor, Tensor | None]:
    """The same by scattered maxima, and the first entries that have them; that of an empty row is beyond the last."""
    values = x.detach().index_select(0, pattern.columns)
    rows = pattern.rows.long().unsqueeze(1).expand_as(values)
    largest = x.new_zeros(pattern.shape[0], x.shape[1]).scatter_reduce(0, rows, values, "amax", include_self=False)
    if not needed:
        return largest, None
    of_row = largest.index_select(0, pattern.rows)
    places = torch.where((values == of_row) | of_row.isnan(), pattern.places.long().unsqueeze(1), len(values))
    first = torch.full(largest.shape, len(values), device=x.device)
    return largest, first.scatter_reduce(0, rows, places, "amin")


class _RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        # A bag of embeddings that lie one after the other is added up many times faster than by index_add.
        summed: Tensor = torch.embedding_bag(
            values.detach().contiguous(), pattern.places, pattern.starts, False, 0, False, None, True
        )[0]
        return summed

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return at_rows(gradient, ctx.pattern), None


class _AtRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        return x.index_select(0, pattern.rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return row_sum(gradient, ctx.pattern), None


class _AtColumns(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        return x.index_select(0, pattern.columns)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        turned, order = ctx.pattern.turned
        return row_sum(gradient.index_select(0, order), turned), None

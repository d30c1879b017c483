"""The spectrum of a graph's Laplacian, its smallest eigenvalues and their eigenvectors: the graph Fourier transform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deepcanon.core.display import Shown
from deepcanon.core.errors import DataError, UsageError
from deepcanon.core.graph_arguments import shown, tensor
from deepcanon.core.sparse import Sparse

DENSE = 400
"""Up to so many rows all eigenvalues of a dense matrix are found in less time than a few of a sparse one."""

SHIFT = 1e-4
"""How far below zero a Laplacian, which is singular, is shifted; nearer to it, fewer solves tell eigenvalues apart."""

SAME = 1e-6
"""Entries of a unit vector that differ by less are of one size in the rule of signs."""


@dataclass(frozen=True, eq=False)
class Spectrum(Shown):
    r"""The smallest eigenvalues of a Laplacian, ``values`` (k,), rising, and eigenvectors, ``vectors`` (nodes, k).

    The eigenvectors are orthonormal columns: the graph Fourier basis, the eigenvalues being the frequencies. A filter
    with the frequency response g is :math:`Q\,g(\Lambda)\,Q^\top`.
    """

    values: Tensor
    vectors: Tensor

    def transform(self, x: Tensor) -> Tensor:
        """The graph Fourier transform of a signal (nodes, ...): its coefficient at every frequency, (k, ...)."""
        return _mapped(self.vectors.T, x, "a signal on {} nodes has as many rows")

    def inverse(self, coefficients: Tensor) -> Tensor:
        """The signal (nodes, ...) with these coefficients, (k, ...)."""
        return _mapped(self.vectors, coefficients, "{} frequencies need as many coefficients")

    def filter(self, response: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The signal with every frequency multiplied by its ``response``; those beyond the k smallest are lost."""
        coefficients = self.transform(x)
        gains = gains_of(response, self.values).to(coefficients.dtype)
        return self.inverse(gains.reshape(-1, *[1] * (coefficients.ndim - 1)) * coefficients)

    def to(self, dtype: torch.dtype) -> Spectrum:
        return self if dtype == self.values.dtype else Spectrum(self.values.to(dtype), self.vectors.to(dtype))


def _mapped(matrix: Tensor, x: Tensor, rule: str) -> Tensor:
    """The product with a matrix along the first dimension, in the precision of ``x``, but single at the least."""
    x = tensor(x, f"{rule.format(matrix.shape[1])}, of a tensor")
    if not x.ndim or len(x) != matrix.shape[1]:
        raise DataError(f"{rule.format(matrix.shape[1])}, got the shape {tuple(x.shape)}")
    kind = torch.promote_types(x.dtype, torch.float32)
    product: Tensor = torch.tensordot(matrix.to(kind), x.to(kind), dims=1)
    return product


def gains_of(response: Callable[[Tensor], Tensor], frequencies: Tensor) -> Tensor:
    """What each of the ``frequencies`` (k,) is multiplied by, (k,); a number is the same for all."""
    if not callable(response):
        raise UsageError(
            f"a response is a function of frequencies, such as lambda f: torch.exp(-f); got {shown(response)}"
        )
    gains = torch.as_tensor(response(frequencies), device=frequencies.device)
    if gains.ndim and gains.shape != frequencies.shape:
        raise UsageError(
            f"a response gives a number for each of {len(frequencies)} frequencies, got the shape {tuple(gains.shape)}"
        )
    return gains.expand_as(frequencies)


def smallest_eigenpairs(matrix: Sparse, k: int) -> Spectrum:
    """The ``k`` smallest eigenvalues of a symmetric, positive semidefinite matrix and their eigenvectors.

    A large sparse matrix is shifted and inverted (Lanczos), which finds the smallest eigenvalues first and fast.
    """
    if matrix.values.is_meta:
        return Spectrum(matrix.values.new_empty(k), matrix.values.new_empty(matrix.shape[0], k))
    if matrix.T is not matrix:
        raise DataError("the Laplacian of a directed graph is not symmetric; list every edge in both directions")
    if matrix.shape[0] <= DENSE or 2 * k >= matrix.shape[0]:
        values, vectors = torch.linalg.eigh(matrix.to_dense())
        values, vectors = values[:k], vectors[:, :k]
    else:
        values, vectors = _shift_invert(matrix, k)
    return Spectrum(values.clamp_min(0.0), _signed(vectors))


def _shift_invert(matrix: Sparse, k: int) -> tuple[Tensor, Tensor]:
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import LinearOperator, eigsh, splu

    parts = (matrix.values, matrix.pattern.columns, matrix.pattern.starts)
    rows = csc_array(tuple(part.cpu().numpy() for part in parts), shape=matrix.shape)  # symmetric: rows are columns
    start = torch.rand(matrix.shape[0], generator=torch.Generator().manual_seed(0), dtype=matrix.dtype).numpy()
    # A wide search space finds all eigenvectors of an eigenvalue that occurs several times.
    width = min(matrix.shape[0] - 1, max(4 * k, 20))
    # Shifted, it is positive definite, so that it needs no pivots and may be ordered for few entries in its factors.
    shifted = (rows + SHIFT * eye_array(matrix.shape[0])).tocsc()
    factors = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    inverse = LinearOperator(matrix.shape, matvec=factors.solve, dtype=rows.dtype)
    values, vectors = eigsh(rows, k, sigma=-SHIFT, which="LM", v0=start, ncv=width, OPinv=inverse)
    order = values.argsort()
    found = (torch.from_numpy(part).to(matrix.device) for part in (values[order], vectors[:, order]))
    return next(found), next(found)


def _signed(vectors: Tensor) -> Tensor:
    """The eigenvectors with the first of their largest entries positive."""
    size = vectors.abs()
    first = (size >= size.amax(0) - SAME).to(torch.uint8).argmax(0)
    return vectors * vectors.gather(0, first.unsqueeze(0)).sign()


def component_positions(edge_index: Tensor, weights: Tensor, owner: Tensor, k: int) -> Tensor:
    """The ``k`` lowest eigenvectors of every component's symmetric Laplacian but the first, (nodes, k).

    ``owner`` is the number of each node's component. Components of one size are solved at once.
    """
    nodes = len(owner)
    found = torch.zeros(nodes, k, dtype=torch.float64, device=owner.device)
    source, target = torch.cat([edge_index, edge_index.flip(0)], 1)
    weights = torch.cat([weights, weights]).double() / 2
    degrees = weights.new_zeros(nodes).index_add(0, target, weights)
    scale = torch.where(degrees > 0, degrees, 1.0).rsqrt()
    values = -weights * scale[source] * scale[target]
    sizes = owner.bincount()
    order = owner.argsort(stable=True)
    starts = sizes.cumsum(0) - sizes
    place = torch.empty_like(order)
    place[order] = torch.arange(nodes, device=owner.device) - starts[owner[order]]
    for size in sizes.unique().tolist():
        if size < 2:
            continue
        chosen = (sizes == size).nonzero().squeeze(1)
        rows = order[starts[chosen].unsqueeze(1) + torch.arange(size, device=owner.device)]  # (components, size)
        number = torch.full((len(sizes),), -1, device=owner.device)
        number[chosen] = torch.arange(len(chosen), device=owner.device)
        here = number[owner[target]] >= 0
        entries = (number[owner[target[here]]], place[target[here]], place[source[here]])
        kept = min(k, size - 1)
        if size <= DENSE:
            matrix = torch.eye(size, dtype=torch.float64, device=owner.device).repeat(len(chosen), 1, 1)
            matrix.index_put_(entries, values[here], accumulate=True)
            vectors = torch.linalg.eigh(matrix).eigenvectors[:, :, 1 : kept + 1]
            parts = [_signed(each) for each in vectors]
        else:
            parts = [_large(entries, values[here], number, size, kept) for number in range(len(chosen))]
        for nodes_of, part in zip(rows, parts, strict=True):
            found[nodes_of, :kept] = part * size**0.5
    return found


def _large(entries: tuple[Tensor, Tensor, Tensor], values: Tensor, number: int, size: int, kept: int) -> Tensor:
    owner, rows, columns = entries
    mine = owner == number
    both = torch.arange(size, device=rows.device)
    found_rows, found_columns = (torch.cat([part[mine], both]) for part in (rows, columns))
    found_values = torch.cat([values[mine], torch.ones(size, dtype=values.dtype, device=values.device)])
    # Entries in one place are added up first, so that the matrix is symmetric to the last bit.
    keys, place = (found_rows * size + found_columns).unique(return_inverse=True)
    added = torch.zeros(len(keys), dtype=values.dtype, device=values.device).index_add(0, place, found_values)
    matrix = Sparse.from_entries(keys // size, keys % size, added, (size, size))
    matrix.__dict__["T"] = matrix
    return smallest_eigenpairs(matrix, kept + 1).vectors[:, 1:]

"""The spectrum of a graph's Laplacian, its smallest eigenvalues and their eigenvectors: the graph Fourier transform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from deepcanon.core.display import Shown
from deepcanon.core.errors import DataError
from deepcanon.core.sparse import Sparse

DENSE = 400
"""Up to so many rows all eigenvalues of a dense matrix are found in less time than a few of a sparse one."""

SHIFT = 1e-2
"""How far below zero a Laplacian, which is singular, is shifted before it is inverted."""

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
        return self.vectors.T @ x

    def inverse(self, coefficients: Tensor) -> Tensor:
        """The signal (nodes, ...) with these coefficients, (k, ...)."""
        return self.vectors @ coefficients

    def filter(self, response: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The signal with every frequency multiplied by its ``response``; those beyond the k smallest are lost."""
        gains = response(self.values).reshape(-1, *[1] * (x.ndim - 1))
        return self.inverse(gains * self.transform(x))

    def to(self, dtype: torch.dtype) -> Spectrum:
        return self if dtype == self.values.dtype else Spectrum(self.values.to(dtype), self.vectors.to(dtype))


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
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import eigsh

    parts = (matrix.values, matrix.pattern.columns, matrix.pattern.starts)
    rows = csc_array(tuple(part.cpu().numpy() for part in parts), shape=matrix.shape)  # symmetric: rows are columns
    start = torch.rand(matrix.shape[0], generator=torch.Generator().manual_seed(0), dtype=matrix.dtype).numpy()
    # A wide search space finds all eigenvectors of an eigenvalue that occurs several times.
    width = min(matrix.shape[0] - 1, max(4 * k, 40))
    values, vectors = eigsh(rows, k, sigma=-SHIFT, which="LM", v0=start, ncv=width)
    order = values.argsort()
    found = (torch.from_numpy(part).to(matrix.device) for part in (values[order], vectors[:, order]))
    return next(found), next(found)


def _signed(vectors: Tensor) -> Tensor:
    """The eigenvectors with the first of their largest entries positive."""
    size = vectors.abs()
    first = (size >= size.amax(0) - SAME).to(torch.uint8).argmax(0)
    return vectors * vectors.gather(0, first.unsqueeze(0)).sign()

"""The Lanczos iteration: the spectrum of a symmetric matrix given by its products with vectors, such as a Hessian."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn.functional import normalize

from deepcanon.core import UsageError

Function = Callable[[Tensor], Tensor]
"""A function of a vector with a scalar (0-d) value."""

Product = Callable[[Tensor], Tensor]
"""The product of a symmetric matrix with a vector."""

Shape = Literal["bowl", "flat", "saddle", "dome"]
"""The shape of a quadratic: positive definite, positive semidefinite, indefinite, negative semidefinite."""

ROUNDING = 1e-12
"""The residual of a product, as a fraction of the largest eigenvalue, that is only rounding."""


def hessian_product(function: Function, theta: Tensor) -> Product:
    """The Hessian-vector product of a function at a point; the graph of the gradient is kept.

    >>> product = hessian_product(lambda x: x[0] ** 2 * x[1], torch.tensor([1.0, 3.0]))
    >>> product(torch.tensor([1.0, 0.0]))
    tensor([6., 2.])
    """
    point = theta.detach().clone().requires_grad_()
    with torch.enable_grad():
        value = function(point)
        (gradient,) = torch.autograd.grad(value, point, create_graph=True, materialize_grads=True)

    def product(vector: Tensor) -> Tensor:
        if not gradient.requires_grad:  # of a function without curvature
            return torch.zeros_like(vector)
        try:
            (row,) = torch.autograd.grad(gradient, point, vector, retain_graph=True, materialize_grads=True)
        except RuntimeError as error:
            raise UsageError(f"the loss cannot be differentiated twice: {str(error).splitlines()[0]}") from error
        return row

    return product


@dataclass(frozen=True)
class Spectrum:
    """The estimate of the eigenvalues of a symmetric matrix by the Lanczos iteration, the smallest first.

    ``values`` are Ritz values: the extreme ones are eigenvalues, each to within its residual, the others represent the
    remaining ones. ``weights`` are the squared components of the start vector, which add up to one; on average over
    random starts they are the density of the eigenvalues.
    """

    values: list[float]
    residuals: list[float]
    weights: list[float]
    basis: Tensor
    """(steps, size)."""
    mix: Tensor
    """The Ritz vectors in the basis, (steps, steps), one per column."""

    @property
    def low(self) -> float:
        return self.values[0]

    @property
    def high(self) -> float:
        return self.values[-1]

    @property
    def shape(self) -> Shape:
        """The shape of the quadratic; an eigenvalue below the residual or the rounding counts as zero."""
        rounding = 1e3 * torch.finfo(self.basis.dtype).eps * max(abs(self.low), abs(self.high))
        if self.high <= max(self.residuals[-1], rounding) and self.low < 0:
            return "dome"
        if self.low < -max(self.residuals[0], rounding):
            return "saddle"
        return "flat" if self.low <= max(self.residuals[0], rounding) else "bowl"

    def settled(self, tolerance: float = 0.01) -> bool:
        """Whether the residual of each extreme eigenvalue is at most this fraction of it, or zero but for rounding."""
        nothing = ROUNDING * max(abs(self.low), abs(self.high))
        extremes = ((self.low, self.residuals[0]), (self.high, self.residuals[-1]))
        return all(residual <= max(tolerance * abs(value), nothing) for value, residual in extremes)

    def vector(self, index: int) -> Tensor:
        """The Ritz vector of this index, of length 1."""
        return normalize(self.basis.T @ self.mix[:, index], dim=0)


def lanczos(product: Product, size: int, steps: int = 60, seed: int = 0, like: Tensor | None = None) -> Spectrum:
    """The extreme eigenvalues of a symmetric matrix of this size from at most ``steps`` products with it.

    The iteration starts at a random vector, with full reorthogonalization. It stops early only where the Krylov space
    is exhausted, not where the residuals are small: they also are where the start vector misses an extreme.

    >>> spectrum = lanczos(lambda v: v * torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64), 3)
    >>> [round(value, 9) for value in spectrum.values]
    [1.0, 2.0, 5.0]
    """
    like = torch.empty(0, dtype=torch.float64) if like is None else like
    most = min(steps, size)
    basis = like.new_empty(most, size)
    start = torch.randn(size, generator=Generator().manual_seed(seed), dtype=torch.float64).to(like)
    basis[0] = start / start.norm()
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    for done in range(1, most + 1):
        known = basis[:done]
        row = product(known[-1])
        diagonal.append(float(row @ known[-1]))
        for _ in range(2):  # once leaves what rounding has brought back
            row = row - known.T @ (known @ row)
        rest = float(row.norm())
        found = _ritz(diagonal, off_diagonal, rest, known)
        largest = max(abs(found.low), abs(found.high))
        if done == most or rest <= ROUNDING * largest:
            break
        off_diagonal.append(rest)
        basis[done] = row / rest
    return found


def _ritz(diagonal: list[float], off_diagonal: list[float], rest: float, basis: Tensor) -> Spectrum:
    band = torch.tensor(off_diagonal, dtype=torch.float64)
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64)) + torch.diag(band, 1) + torch.diag(band, -1)
    if not (bool(matrix.isfinite().all()) and math.isfinite(rest)):
        raise UsageError("the Hessian is not finite here: the loss overflows or has no derivative")
    values, mix = torch.linalg.eigh(matrix)
    rounding = torch.finfo(basis.dtype).eps * float(values.abs().max())
    residuals = (rest * mix[-1].abs()).clamp_min(rounding).tolist()
    return Spectrum(values.tolist(), residuals, mix[0].square().tolist(), basis, mix.to(basis))

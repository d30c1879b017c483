# mypy: disable-error-code="no-any-return"
"""The ``linalg`` extension of the array API standard; what has a derivative is a row of the table or made of rows."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from deepcanon.tensor import movement as m
from deepcanon.tensor import products as p
from deepcanon.tensor import reductions as r
from deepcanon.tensor.errors import GradientError
from deepcanon.tensor.namespace import matmul, matrix_transpose, max, roll, sum, tensordot, vecdot
from deepcanon.tensor.operation import recording
from deepcanon.tensor.tensor import DType, Tensor, wrap

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class Eigen(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class QR(NamedTuple):
    Q: Tensor
    R: Tensor


class SignLog(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class SVD(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


def _values(x: Tensor, name: str, advice: str) -> np.ndarray[Any, Any]:
    """The values of a tensor for a function without derivative; a recorded tensor is refused."""
    if x.requires_grad and recording.on:
        raise GradientError(f"{name} has no derivative here: {advice}, or give it x.detach()")
    return x.array


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    return p.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The product of vectors with three components that is orthogonal to both."""
    return roll(x1, -1, axis=axis) * roll(x2, -2, axis=axis) - roll(x1, -2, axis=axis) * roll(x2, -1, axis=axis)


def det(x: Tensor, /) -> Tensor:
    return p.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    return m.diagonal(x, offset)


def eigh(x: Tensor, /) -> Eigen:
    """Eigenvalues, growing, and eigenvectors of symmetric matrices; the derivative needs distinct eigenvalues."""
    if x.dtype.kind == "c":
        return Eigen(*(wrap(part) for part in np.linalg.eigh(x.array)))
    return Eigen(*p.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    return eigh(x).eigenvalues


def inv(x: Tensor, /) -> Tensor:
    return p.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of matrices; the Frobenius norm has a derivative, 0 at 0."""
    if ord == "fro" and x.dtype.kind == "f":
        return r.norm(x, axis=(-2, -1), keepdims=keepdims)
    values = _values(x, f"matrix_norm of order {ord}", "use the Frobenius norm")
    return wrap(np.linalg.norm(values, ord, (-2, -1), keepdims))


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The product of n equal matrices; of inverses for a negative n."""
    base = inv(x) if n < 0 else x
    result = wrap(np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape).copy())
    for _ in range(n if n > 0 else -n):
        result = result @ base
    return result


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    return wrap(np.linalg.matrix_rank(x.array, rtol=rtol if not isinstance(rtol, Tensor) else rtol.array))


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    return m.expand_dims(x1, 1) * m.expand_dims(x2, 0)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    values = _values(x, "pinv", "use solve(x.mT @ x, x.mT) where x has full column rank")
    return wrap(np.linalg.pinv(values, rtol=rtol if not isinstance(rtol, Tensor) else rtol.array))


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QR:
    return QR(*(wrap(part) for part in np.linalg.qr(_values(x, "qr", "use cholesky(x.mT @ x)"), mode)))


def slogdet(x: Tensor, /) -> SignLog:
    """The sign of the determinant and the logarithm of its absolute value."""
    return SignLog(wrap(np.linalg.slogdet(x.array).sign), p.logabsdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    return p.solve(x1, x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    return SVD(*(wrap(part) for part in np.linalg.svd(_values(x, "svd", "use eigh(x.mT @ x)"), full_matrices)))


def svdvals(x: Tensor, /) -> Tensor:
    return wrap(np.linalg.svdvals(_values(x, "svdvals", "use the square root of eigvalsh(x.mT @ x)")))


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType = None) -> Tensor:
    return sum(m.diagonal(x, offset), axis=-1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """A norm of vectors; its derivative at 0 is 0 for the orders 1, 2 and infinity."""
    axes = m.axes_of(axis, x.ndim)
    if ord == 2 and x.dtype.kind == "f":
        return r.norm(x, axis=axes, keepdims=keepdims)
    size = abs(x)
    if ord == np.inf:
        return (max if x.size else sum)(size, axis=axes, keepdims=keepdims)  # that of no elements is 0
    if ord == -np.inf:
        return -max(-size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return sum((x != 0).astype(size.dtype), axis=axes, keepdims=keepdims)
    return sum(size**ord, axis=axes, keepdims=keepdims) ** (1 / ord)

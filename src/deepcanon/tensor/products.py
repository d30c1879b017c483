"""Matrix products, linear systems and decompositions with their derivatives (the table, fourth part)."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from deepcanon.tensor.errors import ShapeError
from deepcanon.tensor.movement import expand, expand_dims, reshape, triangle
from deepcanon.tensor.operation import Operand, Operation, Value, binary, speaks

Array = np.ndarray[Any, Any]


def _to_right(g: Value, y: Value, a: Value, b: Value) -> Value:
    if b.ndim == 2 and a.ndim > 2:  # one large product in place of a sum of small ones
        return reshape(a, shape=(-1, a.shape[-1])).mT @ reshape(g, shape=(-1, g.shape[-1]))
    return a.mT @ g


product = Operation(
    "matmul",
    np.matmul,
    lambda g, y, a, b: g @ b.mT,
    _to_right,
    hint="the last size of the first must equal the last but one of the second",
)


def matmul(a: Value, b: Value) -> Value:
    """The product of matrices in the last two axes; a vector counts as one row on the left, one column on the right."""
    if np.ndim(a) == 1 or np.ndim(b) == 1:
        left = expand_dims(a, 0) if np.ndim(a) == 1 else a
        right = expand_dims(b, 1) if np.ndim(b) == 1 else b
        out = product(left, right)
        shape = out.shape[:-2] + out.shape[-2:-1] * (np.ndim(a) > 1) + out.shape[-1:] * (np.ndim(b) > 1)
        return reshape(out, shape=shape)
    return binary(product, a, b) if isinstance(a, Operand) or isinstance(b, Operand) else np.matmul(a, b)


def _einsum_rule(g: Value, y: Value, *xs: Value, subscripts: str) -> list[Value]:
    """For each operand the product of the delta with the other operands, laid out along the operand's own letters."""
    inputs, output = subscripts.split("->")
    letters = inputs.split(",")
    deltas = []
    for k, mine in enumerate(letters):
        others = [(letters[i], xs[i]) for i in range(len(xs)) if i != k]
        known = "".join(letter for letter in mine if letter in output + "".join(name for name, _ in others))
        terms = ",".join([output, *(name for name, _ in others)])
        d = _einsum(g, *(x for _, x in others), subscripts=f"{terms}->{known}")
        if known != mine:  # letters that only this operand has were summed: the delta is the same along them
            d = expand_dims(d, tuple(i for i, letter in enumerate(mine) if letter not in known))
            d = expand(d, shape=xs[k].shape)
        deltas.append(d)
    return deltas


_einsum = Operation(
    "einsum", lambda *xs, subscripts: np.einsum(subscripts, *xs, optimize=len(xs) > 1), joint=_einsum_rule
)


def einsum(subscripts: str, *xs: Value) -> Value:
    """Einstein's summation, with an ellipsis for further axes and a repeated letter for a diagonal.

    >>> einsum("ij,jk->ik", np.eye(2), np.ones((2, 2)))
    array([[1., 1.],
           [1., 1.]])
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(xs):
        raise ShapeError(f"einsum {subscripts!r} names {len(terms)} operands, {len(xs)} came")
    free = [letter for letter in string.ascii_letters if letter not in subscripts]
    extra = [
        np.ndim(x) - len(term.replace("...", "")) if "..." in term else 0 for term, x in zip(terms, xs, strict=True)
    ]
    wide = "".join(free.pop() for _ in range(max(extra, default=0)))
    terms = [term.replace("...", wide[len(wide) - n :]) for term, n in zip(terms, extra, strict=True)]
    output = output.replace("...", wide)
    if not arrow:  # by convention: the ellipsis, then the letters that occur once, in alphabetical order
        names = "".join(terms)
        output = wide + "".join(sorted(letter for letter in set(names) - set(wide) if names.count(letter) == 1))
    operands = list(xs)
    for i, term in enumerate(terms):
        for place, letter in enumerate(term):
            if letter in term[:place]:  # a diagonal is a product with the identity
                name = free.pop()
                terms[i] = terms[i][:place] + name + terms[i][place + 1 :]
                terms.append(letter + name)
                operands.append(np.eye(xs[i].shape[place], dtype=xs[i].dtype))
    return _einsum(*operands, subscripts=",".join(terms) + "->" + output)


_inv = Operation("inv", np.linalg.inv, lambda g, y, a: -(y.mT @ g @ y.mT))
_det = Operation("det", np.linalg.det, lambda g, y, a: (g * y)[..., None, None] * inv(a).mT)
_logabsdet = Operation("logabsdet", lambda a: np.linalg.slogdet(a)[1], lambda g, y, a: g[..., None, None] * inv(a).mT)
_solve: Operation = Operation(
    "solve",
    np.linalg.solve,
    lambda g, y, a, b: -(_solve(a.mT, g) @ y.mT),
    lambda g, y, a, b: _solve(a.mT, g),
    hint="the first must be square matrices, the second have as many rows",
)


def inv(a: Value) -> Value:
    """The inverse of square matrices."""
    return _inv(a)


def det(a: Value) -> Value:
    """The determinant; its derivative is defined where the matrix has an inverse."""
    return _det(a)


def logabsdet(a: Value) -> Value:
    """The logarithm of the absolute value of the determinant."""
    return _logabsdet(a)


def solve(a: Value, b: Value) -> Value:
    """The x with a x = b; a vector b gives a vector."""
    if np.ndim(b) == 1:
        return reshape(_solve(a, expand_dims(b, 1)), shape=(*a.shape[:-2], a.shape[-1]))
    return _solve(a, b)


def _half(x: Value) -> Value:
    """The lower triangle with half of the diagonal: what a symmetric change of a matrix does to its Cholesky factor."""
    return triangle(x, 0, lower=True) - x * (0.5 * np.eye(x.shape[-1], dtype=x.dtype))


def _cholesky_rule(g: Value, y: Value, a: Value) -> Value:
    inner = _solve(y.mT, _half(y.mT @ g))
    outer = _solve(y.mT, inner.mT).mT
    return 0.5 * (outer + outer.mT)


_cholesky = Operation("cholesky", np.linalg.cholesky, _cholesky_rule)


def cholesky(a: Value, *, upper: bool = False) -> Value:
    """The triangular L with L L^T = a (or its transpose); the delta is that of a symmetric matrix."""
    factor = _cholesky(a)
    return factor.mT if upper else factor


def _eigen(a: Array) -> Array:
    values, vectors = np.linalg.eigh(a)
    return np.concatenate([values[..., None, :], vectors], axis=-2)


def _eigen_rule(g: Value, y: Value, a: Value) -> Value:
    values, vectors = y[..., 0, :], y[..., 1:, :]
    gaps = values[..., None, :] - values[..., :, None]
    diagonal = np.eye(a.shape[-1], dtype=bool)
    one, none = np.ones((), a.dtype), np.zeros((), a.dtype)
    turn = np.where(diagonal, none, vectors.mT @ g[..., 1:, :]) / np.where(diagonal, one, gaps)
    return vectors @ (turn + np.where(diagonal, g[..., 0, None, :], none)) @ vectors.mT


_eigh = Operation("eigh", _eigen, _eigen_rule)
"""Eigenvalues above eigenvectors in one matrix, so that the row has one result like every other."""


def eigh(a: Value) -> tuple[Value, Value]:
    """Eigenvalues, growing, and eigenvectors of symmetric matrices; the derivative needs distinct eigenvalues.

    A delta of the eigenvectors is meaningful only for functions that do not depend on their signs.
    """
    both = _eigh(a)
    return both[..., 0, :], both[..., 1:, :]


speaks(np.matmul, matmul)
speaks(np.linalg.solve, solve)
speaks(np.einsum, einsum)
speaks(np.outer, lambda a, b: expand_dims(a, 1) * expand_dims(b, 0))

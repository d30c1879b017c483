"""Chebyshev polynomials of a Laplacian: filters of a graph's frequencies without eigenvectors."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from deepcanon.core.sparse import Sparse


def chebyshev(values: Tensor, order: int) -> Tensor:
    """The Chebyshev polynomials of ``values`` in [0, 2], shifted to [-1, 1], up to an order, (order + 1, ...).

    >>> chebyshev(torch.tensor([0.0, 1.0, 2.0]), 2)
    tensor([[ 1.,  1.,  1.],
            [-1.,  0.,  1.],
            [ 1., -1.,  1.]])
    """
    shifted = values - 1
    found = [torch.ones_like(shifted), shifted]
    for _ in range(order - 1):
        found.append(2 * shifted * found[-1] - found[-2])
    return torch.stack(found[: order + 1])


def chebyshev_sum(laplacian: Sparse, terms: Tensor) -> Tensor:
    r"""The sum :math:`\sum_k T_k(L - I) X_k` of ``terms`` X, (order + 1, nodes, width), by Clenshaw's recurrence."""
    after = beyond = torch.zeros_like(terms[0])
    for term in terms[1:].flip(0):
        after, beyond = term + 2 * (laplacian @ after - after) - beyond, after
    return terms[0] + (laplacian @ after - after) - beyond


def chebyshev_coefficients(response: Callable[[Tensor], Tensor], order: int) -> Tensor:
    """The coefficients of the polynomial that has the values of a frequency response at the Chebyshev nodes of [0, 2].

    >>> chebyshev_coefficients(lambda frequency: frequency, 2).round(decimals=6).abs()
    tensor([1., 1., 0.], dtype=torch.float64)
    """
    angle = math.pi * (torch.arange(order + 1, dtype=torch.float64) + 0.5) / (order + 1)
    values = response(1 + angle.cos())
    waves = (torch.arange(order + 1).unsqueeze(1) * angle).cos()
    found = 2 / (order + 1) * (waves @ values)
    return torch.cat([found[:1] / 2, found[1:]])

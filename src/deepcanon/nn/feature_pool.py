"""Pooling over features, and with it maxout units."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from deepcanon.core import DataError
from deepcanon.core.checks import at_least, one_of

Pooling = Literal["max", "mean"]


class FeaturePool(nn.Module):
    r"""Pooling over groups of neighboring features, or channels, in place of positions.

    .. math:: y_i = \max_{j < k} x_{i k + j}

    After a linear layer or a convolution this is a maxout unit, the maximum of k linear functions of its input:
    piecewise linear and convex, :math:`|x|` and the ReLU among them, with an activation that is learned.

    References:
        | Maxout networks (Goodfellow et al., 2013), https://arxiv.org/abs/1302.4389

    Arguments:
        pieces: The number k of features in a group.
        how: "max" or "mean".
        dim: The dimension of the features.

    >>> import torch
    >>> FeaturePool(2)(torch.tensor([[1.0, 3.0, -1.0, -5.0]]))
    tensor([[ 3., -1.]])
    """

    def __init__(self, pieces: int, how: Pooling = "max", dim: int = 1) -> None:
        super().__init__()
        at_least(1, pieces=pieces)
        one_of(("max", "mean"), how=how)
        self.pieces = pieces
        self.how = how
        self.dim = dim

    def extra_repr(self) -> str:
        return f"pieces={self.pieces}, how={self.how}, dim={self.dim}"

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[self.dim] % self.pieces:
            raise DataError(f"{x.shape[self.dim]} features cannot be pooled in groups of {self.pieces}")
        dim = self.dim % x.ndim
        groups = x.unflatten(dim, (x.shape[dim] // self.pieces, self.pieces))
        pooled: Tensor = groups.amax(dim + 1) if self.how == "max" else groups.mean(dim + 1)
        return pooled

"""Energy distance between the distributions of two samples."""

from __future__ import annotations

import torch
from torch import Tensor


def energy_distance(x: Tensor, y: Tensor) -> Tensor:
    r"""The squared energy distance between the distributions that two samples come from, estimated without bias.

    .. math:: D^2 = 2 E \lVert X - Y \rVert - E \lVert X - X' \rVert - E \lVert Y - Y' \rVert

    It is zero exactly where the distributions are equal; being unbiased, its estimate may then fall a little below.
    A sample of one example has no distances within it, and their mean counts as zero.

    References:
        | Energy statistics: a class of statistics based on distances (Székely and Rizzo, 2013),
          https://doi.org/10.1016/j.jspi.2013.03.018

    >>> energy_distance(torch.tensor([[0.0], [2.0]]), torch.tensor([[5.0], [7.0]]))
    tensor(6.)
    """
    x, y = x.flatten(1), y.flatten(1)
    return 2 * torch.cdist(x, y).mean() - _mean_distance(x) - _mean_distance(y)


def _mean_distance(x: Tensor) -> Tensor:
    """The mean distance between two different examples."""
    return torch.cdist(x, x).sum() / max(1, len(x) * (len(x) - 1))

"""The marginal distributions of vectors of independent values."""

from __future__ import annotations

from torch.distributions import Distribution, Independent, Normal

from deepcanon.distributions.diagonal import Diagonal
from deepcanon.distributions.spherical import Spherical


def marginals(distribution: Distribution) -> Distribution:
    """The distributions of the single values, where these are independent; anything else as it is.

    >>> import torch
    >>> marginals(Spherical(torch.zeros(1, 2), torch.tensor(2.0))).icdf(torch.tensor(0.5))
    tensor([[0., 0.]])
    >>> marginals(Diagonal(torch.zeros(1, 2), torch.zeros(1, 2))).stddev
    tensor([[1., 1.]])
    """
    if isinstance(distribution, Spherical | Diagonal):
        return Normal(distribution.loc, distribution.stddev, validate_args=False)
    return distribution.base_dist if isinstance(distribution, Independent) else distribution

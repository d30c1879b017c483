"""The marginal distributions of vectors of independent values."""

from __future__ import annotations

from torch.distributions import Distribution, Independent, Normal

from deepcanon.distributions.spherical import Spherical


def marginals(distribution: Distribution) -> Distribution:
    """The distributions of the single values, where these are independent; anything else as it is.

    >>> import torch
    >>> marginals(Spherical(torch.zeros(1, 2), torch.tensor(2.0))).icdf(torch.tensor(0.5))
    tensor([[0., 0.]])
    """
    if isinstance(distribution, Spherical):
        return Normal(distribution.loc, distribution.scale, validate_args=False)
    return distribution.base_dist if isinstance(distribution, Independent) else distribution

"""Relative position bias by buckets of distances, as in T5."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least


class BucketBias(nn.Module):
    r"""Relative position bias by buckets: a learned number for each head and bucket of distances, added to the scores.

    .. math:: s_{ij} = q_i \cdot k_j + b_{h,\, \beta(i - j)}, \qquad
              \beta(d) = \begin{cases} d & d < m \\
              \min(n - 1,\; m + \lfloor (n - m) \frac{\ln (d / m)}{\ln (r / m)} \rfloor) & d \ge m \end{cases}
              \qquad (1)

    Here n is the number of buckets of one direction and m = n / 2: small distances have a bucket of their own, larger
    ones share buckets that widen like a logarithm up to the reach r, and all beyond share the last. Unless it is
    ``causal``, keys after the query have the other half of the buckets. As in attention, the last query stands at the
    last key.

    References:
        | Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer (Raffel et al., 2020),
          section 2.1, https://arxiv.org/abs/1910.10683

    Arguments:
        heads: The number of heads.
        buckets: The number of buckets.
        reach: The distance from which on all share a bucket.
        causal: Whether there are no keys after a query, so that all buckets are for those before it.

    >>> BucketBias(1, buckets=4, reach=8).bucket(torch.tensor([0, -1, -9, 1, 9]))
    tensor([0, 1, 1, 3, 3])
    """

    places: Tensor

    def __init__(self, heads: int, buckets: int = 32, reach: int = 128, causal: bool = False) -> None:
        super().__init__()
        at_least(1, heads=heads)
        at_least(2 if causal else 4, buckets=buckets)
        if buckets % 2 or reach <= buckets // 2:
            raise UsageError(
                f"buckets are an even number and reach farther than their half (got buckets={buckets}, reach={reach})"
            )
        self.buckets, self.reach, self.causal = buckets, reach, causal
        self.table = nn.Parameter(torch.zeros(heads, buckets))
        with torch.device("cpu"):  # the bucket of each distance from -reach to reach, also of a model without numbers
            places = self.bucket(torch.arange(-reach, reach + 1))
        self.register_buffer("places", places, persistent=False)

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of each distance from query to key, negative for keys before the query."""
        count = self.buckets if self.causal else self.buckets // 2
        after = torch.zeros_like(distance) if self.causal else (distance > 0) * count
        size = (-distance).clamp_min(0) if self.causal else distance.abs()
        exact = count // 2
        ratio = (size.float() / exact).log() / math.log(self.reach / exact)
        wide = (exact + (ratio * (count - exact)).clamp_min(0).long()).clamp_max(count - 1)
        return after + torch.where(size < exact, size, wide)

    def forward(self, queries: int, keys: int) -> Tensor:
        """The bias of every pair, (heads, queries, keys)."""
        distance = torch.arange(1 - keys, queries, device=self.table.device)  # from last query to first key, and on
        by_distance = self.table[:, self.places[distance.clamp(-self.reach, self.reach) + self.reach]]
        return by_distance.unfold(1, keys, 1).flip(1)  # b in eq. (1): each row is the next one, moved by one key

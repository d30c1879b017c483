"""What flows of couplings share: two halves that take turns, one read and one changed."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.flows._flow import Flow


class Couplings(Flow):
    """A flow whose steps change one half of x, feature by feature, by what they read in the other half.

    Such a step is undone without solving anything, since what it has read is still there, and its Jacobian is a
    triangle. The halves are the features at even and at odd places, and each coupling changes the half that the one
    before it has read.
    """

    order: Tensor
    place: Tensor

    def __init__(self, features: int, couplings: int) -> None:
        super().__init__(features)
        if features < 2:
            raise UsageError(f"{self.name()} couples two halves: features must be at least 2 (got {features})")
        at_least(1, couplings=couplings)
        order = torch.cat([torch.arange(0, features, 2), torch.arange(1, features, 2)])
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("place", order.argsort(), persistent=False)
        self.halves = (features + 1) // 2, features // 2

    def _read_and_changed(self, coupling: int) -> tuple[int, int]:
        """How many features this coupling reads, and how many it changes."""
        return self.halves[coupling % 2], self.halves[1 - coupling % 2]

    def _split(self, x: Tensor, swaps: int = 0) -> tuple[Tensor, Tensor]:
        """The half that the next coupling reads and the half that it changes, after so many couplings."""
        a, b = x.index_select(-1, self.order).split(self.halves, dim=-1)
        return (a, b) if swaps % 2 == 0 else (b, a)

    def _join(self, a: Tensor, b: Tensor, swaps: int = 0) -> Tensor:
        """The inverse of ``_split``."""
        return torch.cat([a, b] if swaps % 2 == 0 else [b, a], dim=-1).index_select(-1, self.place)

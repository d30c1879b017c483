"""Flows of coupling layers: one half of the features is read and the other changed, in turn."""

from __future__ import annotations

import torch
from torch import Tensor

from deepcanon.core import Batch, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.flows._flow import StandardizedFlow


class Couplings(StandardizedFlow[Batch]):
    """A flow of coupling layers, which change one half of x feature by feature, as functions of the other half.

    A coupling layer is inverted without solving anything, since the half that it has read is still there, and its
    Jacobian is triangular. The halves are the features of even and of odd index, and each coupling layer changes the
    half that the one before it has read.
    """

    order: Tensor
    inverse_order: Tensor

    def __init__(self, features: int, couplings: int, levels: int | None = None) -> None:
        super().__init__(features, levels)
        if features < 2:
            raise UsageError(f"{self.name()} couples two halves: features must be at least 2 (got {features})")
        at_least(1, couplings=couplings)
        order = torch.cat([torch.arange(0, features, 2), torch.arange(1, features, 2)])
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("inverse_order", order.argsort(), persistent=False)
        self.halves = (features + 1) // 2, features // 2

    def _read_and_changed(self, coupling: int) -> tuple[int, int]:
        """The number of features that this coupling layer reads, and the number that it changes."""
        return self.halves[coupling % 2], self.halves[1 - coupling % 2]

    def _split(self, x: Tensor, swaps: int = 0) -> tuple[Tensor, Tensor]:
        """The half that the next coupling layer reads and the half that it changes, after so many of them."""
        a, b = x.index_select(-1, self.order).split(self.halves, dim=-1)
        return (a, b) if swaps % 2 == 0 else (b, a)

    def _join(self, a: Tensor, b: Tensor, swaps: int = 0) -> Tensor:
        """The inverse of ``_split``."""
        return torch.cat([a, b] if swaps % 2 == 0 else [b, a], dim=-1).index_select(-1, self.inverse_order)

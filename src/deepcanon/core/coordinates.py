"""Coordinates in which an optimizer steps, where they are not the parameters themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Coordinates(Protocol):
    """A layer of a weight and a bias, and a linear change of both in which its loss is better conditioned.

    Weight and bias keep their meaning for everyone but the optimizer: penalties, clipping and checkpoints see them.
    """

    @property
    def weight(self) -> Tensor: ...

    @property
    def bias(self) -> Tensor: ...

    def coordinates_of(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The coordinates of these values of weight and bias."""
        ...

    def values_at(self, coordinates: Sequence[Tensor]) -> list[Tensor]:
        """The weight and the bias at these coordinates."""
        ...

    def gradient_of(self, gradients: Sequence[Tensor]) -> list[Tensor]:
        """The gradient in the coordinates, from that in weight and bias."""
        ...

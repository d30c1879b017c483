"""The part of the plane that is shown: a square around the data, and a grid of points on it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import torch
from torch import Tensor

MARGIN = 1.35
"""How much wider than the data the square is."""


@dataclass(frozen=True)
class Window:
    """A square of the plane: its left and lower edges, and its side; both axes have one scale."""

    left: float
    bottom: float
    side: float

    @classmethod
    def around(cls, x: Tensor) -> Self:
        """The square around points, (N, 2), with a margin."""
        low, high = x.min(0).values.double(), x.max(0).values.double()
        side = MARGIN * float((high - low).max().clamp_min(1e-6))
        middle = (low + high) / 2
        return cls(float(middle[0]) - side / 2, float(middle[1]) - side / 2, side)

    @property
    def middle(self) -> Tensor:
        return torch.tensor([self.left + self.side / 2, self.bottom + self.side / 2])

    def grid(self, cells: int) -> Tensor:
        """The centers of so many times so many cells, (cells², 2), row by row from the upper left."""
        return _grid(self, cells)

    def facts(self) -> dict[str, float]:
        return {"left": self.left, "bottom": self.bottom, "side": self.side}


@lru_cache(maxsize=16)
def _grid(window: Window, cells: int) -> Tensor:
    place = (torch.arange(cells) + 0.5) / cells * window.side
    across, up = window.left + place, (window.bottom + place).flip(0)
    rows, columns = torch.meshgrid(up, across, indexing="ij")
    return torch.stack([columns, rows], -1).reshape(-1, 2)


def as_bytes(values: Tensor) -> str:
    """Values from 0 to 1 as one byte each, in base 64."""
    scaled = (values.double().nan_to_num(0.0).clamp(0, 1) * 255).round().to(torch.uint8)
    return base64.b64encode(scaled.flatten().contiguous().numpy().tobytes()).decode()


def rounded(values: Tensor) -> list[Any]:
    """Numbers to five significant digits, or so many as a picture needs; what is not finite is None."""
    flat = [
        float(f"{value:.5g}") if value - value == 0 else None for value in values.detach().double().flatten().tolist()
    ]
    if values.ndim == 1:
        return flat
    *_, width = values.shape
    return [flat[i : i + width] for i in range(0, len(flat), width)]

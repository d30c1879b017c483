"""A graph as an edge list with an explicit number of vertices."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from deepcanon.core.errors import DataError


@dataclass(frozen=True, eq=False)
class Graph:
    """Edges ``edge_index`` (2, E), from the first row to the second; an undirected edge stands in both directions.

    The number of ``nodes`` is given, never inferred, so that isolated vertices count.

    >>> Graph(torch.tensor([[0, 1], [1, 0]]), nodes=3).degrees()
    tensor([1., 1., 0.])
    """

    edge_index: Tensor
    nodes: int
    weight: Tensor | None = None

    def __post_init__(self) -> None:
        if self.edge_index.ndim != 2 or self.edge_index.shape[0] != 2:
            raise DataError(f"edge_index must have the shape (2, E), got {tuple(self.edge_index.shape)}")
        if self.edge_index.numel() and not 0 <= int(self.edge_index.min()) <= int(self.edge_index.max()) < self.nodes:
            raise DataError(f"edges must join vertices 0 to {self.nodes - 1}")
        if self.weight is not None and self.weight.shape != self.edge_index.shape[1:]:
            raise DataError(f"{self.edge_index.shape[1]} edges need as many weights, got {tuple(self.weight.shape)}")

    def degrees(self) -> Tensor:
        """The sum of the weights of the edges that arrive at each vertex, (nodes,)."""
        weight = torch.ones(self.edge_index.shape[1]) if self.weight is None else self.weight
        weight = weight.to(self.edge_index.device)
        return weight.new_zeros(self.nodes).index_add(0, self.edge_index[1], weight)

    def to(self, device: torch.device | str) -> Graph:
        weight = None if self.weight is None else self.weight.to(device)
        return Graph(self.edge_index.to(device), self.nodes, weight)

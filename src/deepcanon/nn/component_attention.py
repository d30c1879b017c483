"""Attention of all nodes of a graph's component to each other, and the transformer block of graphs around it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from deepcanon.core import DataError, Graph
from deepcanon.core.checks import at_least, one_of
from deepcanon.nn.attention import MultiHeadAttention
from deepcanon.nn.graph_attention import NeighborAttention

Attends = Literal["all", "neighbors"]


class ComponentAttention(nn.Module):
    r"""Multi-head attention of every node to all nodes of its connected component, however far they are.

    .. math:: y_v = O \sum_{u \in C(v)} \alpha_{vu} V x_u, \qquad
              \alpha_{vu} = \operatorname{softmax}_u \frac{(Q x_v)^\top K x_u}{\sqrt d} \qquad (1)

    The time grows with the square of the number of nodes of a component. Graphs of a union that are connected
    attend within themselves alone.

    >>> ComponentAttention(6, heads=2)(torch.ones(3, 6), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([3, 6])
    """

    def __init__(self, width: int, *, heads: int = 1) -> None:
        super().__init__()
        self.in_features = width
        self.attention = MultiHeadAttention(width, heads)

    def forward(self, x: Tensor, graph: Graph | Tensor) -> Tensor:
        """The attended values of all nodes, (nodes, width)."""
        if x.shape[1] != self.in_features:
            raise DataError(f"the layer takes {self.in_features} features per node, got {x.shape[1]}")
        padded = torch.cat([x, torch.zeros_like(x[:1])])  # padding, -1, is the last row
        places, values = [], []
        for group in Graph.of(graph, len(x)).groups:
            there = group >= 0
            rows = self.attention(padded[group], mask=there[:, None, None])  # eq. (1)
            places.append(group if group.is_meta else group[there])
            values.append(rows if group.is_meta else rows[there])
        found = torch.cat([each.flatten() for each in places])
        return torch.zeros_like(x).index_copy(0, found, torch.cat([each.flatten(0, -2) for each in values]))


class GraphTransformerBlock(nn.Module):
    r"""A transformer block of a graph's nodes: attention and a network, each with a residual connection.

    .. math:: H' = H + \operatorname{Attention}(\operatorname{LayerNorm}(H), A), \qquad
              H'' = H' + \operatorname{MLP}(\operatorname{LayerNorm}(H')) \qquad (1)

    ``attends`` says whether nodes attend to all nodes of their component or to their neighbors.
    """

    def __init__(self, width: int, *, heads: int = 1, attends: Attends = "all", dropout: float = 0.0) -> None:
        super().__init__()
        at_least(1, width=width, heads=heads)
        one_of(("all", "neighbors"), attends=attends)
        kind = ComponentAttention if attends == "all" else NeighborAttention
        self.in_features = width
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = kind(width, heads=heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, graph: Graph | Tensor) -> Tensor:
        """The new features of all nodes, (nodes, width)."""
        x = x + self.dropout(self.attention(self.before_attention(x), graph))
        rows: Tensor = x + self.dropout(self.mlp(self.before_mlp(x)))  # eq. (1)
        return rows

"""Graph attention: message passing with learned weights of the edges, by added or by multiplied scores."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import DataError, Graph, Sparse, UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.sparse import entry_dots
from deepcanon.nn.graph_conv import dropped
from deepcanon.nn.message_passing import at_columns, at_rows, row_softmax


class AttentionConv(nn.Module):
    r"""Graph attention layer (GAT): each node aggregates its neighbors and itself with learned attention weights.

    .. math:: y_v = \sum_{u \to v} \alpha_{vu} W x_u + b, \qquad
              \alpha_{vu} = \operatorname{softmax}_u \operatorname{LeakyReLU}(a_s^\top W x_u + a_t^\top W x_v)
              \qquad (1)

    Every head has weights of its own; their outputs, ``out_features`` each, are concatenated. ``dropout`` leaves out
    some of the attention weights in training. It is the layer of Graph Attention Networks (Veličković et al., 2018),
    https://arxiv.org/abs/1710.10903.

    >>> layer = AttentionConv(3, 2, heads=4)
    >>> layer(torch.ones(5, 3), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([5, 8])
    """

    def __init__(
        self, in_features: int, out_features: int, *, heads: int = 1, slope: float = 0.2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        at_least(1, in_features=in_features, out_features=out_features, heads=heads)
        self.in_features = in_features
        self.heads = heads
        self.slope = slope
        self.dropout = dropout
        self.weight = nn.Parameter(torch.empty(heads * out_features, in_features))
        self.source = nn.Parameter(torch.empty(heads, out_features))
        self.target = nn.Parameter(torch.empty(heads, out_features))
        self.bias = nn.Parameter(torch.zeros(heads * out_features))
        for parameter in (self.weight, self.source, self.target):
            nn.init.xavier_uniform_(parameter)

    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The new features of all nodes, (nodes, heads * out_features)."""
        nodes, features = x.shape
        if features != self.in_features:
            raise DataError(f"the layer takes {self.in_features} features per node, got {features}")
        h = (x @ self.weight.T).unflatten(1, (self.heads, -1))  # (nodes, heads, out_features)
        edges = Graph.of(graph, nodes).operator("gcn", h.dtype)  # for its pattern alone: a self-loop at every node
        from_source, to_target = ((h * vector).sum(-1) for vector in (self.source, self.target))  # (nodes, heads)
        scores = at_columns(from_source, edges.pattern) + at_rows(to_target, edges.pattern)  # (entries, heads)
        scores = F.leaky_relu(scores, self.slope)
        scores = scores.masked_fill((edges.values == 0).unsqueeze(1), -torch.inf)  # an edge of weight 0 does not count
        weights = dropped(row_softmax(scores, edges.pattern), self.dropout, self.training).to_dense()
        aggregated = [edges.with_values(weights[:, head]) @ h[:, head] for head in range(self.heads)]
        return torch.cat(aggregated, 1) + self.bias  # eq. (1)


class NeighborAttention(nn.Module):
    r"""Scaled dot-product attention of every node to its neighbors, the sources of the edges that arrive at it.

    .. math:: y_v = \sum_{u \to v} \alpha_{vu} V x_u, \qquad
              \alpha_{vu} = \operatorname{softmax}_u \frac{(Q x_v)^\top K x_u}{\sqrt d} \qquad (1)

    The heads share the width; a node without neighbors gets 0. It is the attention of A Generalization of Transformer
    Networks to Graphs (Dwivedi and Bresson, 2021), https://arxiv.org/abs/2012.09699.

    >>> NeighborAttention(6, heads=2)(torch.ones(3, 6), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([3, 6])
    """

    def __init__(self, width: int, *, heads: int = 1) -> None:
        super().__init__()
        at_least(1, width=width, heads=heads)
        if width % heads:
            raise UsageError(f"the heads share the width: {width} must be a multiple of heads (got {heads})")
        self.in_features, self.heads = width, heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor, graph: Graph | Tensor) -> Tensor:
        """The attended values of all nodes, (nodes, width), the heads next to each other."""
        edges = Graph.of(graph, len(x)).operator("adjacency", x.dtype)
        q, k, v = (part(x).unflatten(1, (self.heads, -1)) for part in (self.query, self.key, self.value))
        scale = 1 / math.sqrt(q.shape[2])
        scores = [scale * entry_dots(edges.pattern, q[:, head], k[:, head]) for head in range(self.heads)]
        masked = torch.stack(scores, 1).masked_fill((edges.values == 0).unsqueeze(1), -torch.inf)
        weights = row_softmax(masked, edges.pattern)
        return torch.cat([edges.with_values(weights[:, head]) @ v[:, head] for head in range(self.heads)], 1)  # eq. (1)

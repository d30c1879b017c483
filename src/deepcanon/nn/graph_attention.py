"""Graph attention: message passing with learned weights of the edges, by added or by multiplied scores."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import DataError, Graph, Sparse, UsageError
from deepcanon.core.checks import at_least
from deepcanon.nn.graph_conv import dropped
from deepcanon.nn.message_passing import at_columns, at_rows, head_dots, head_sums, row_softmax


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
        h = x @ self.weight.T
        edges = Graph.of(graph, nodes).operator("gcn", h.dtype)  # for its pattern alone: a self-loop at every node
        apart = h.unflatten(1, (self.heads, -1))  # (nodes, heads, out_features)
        from_source, to_target = ((apart * vector).sum(-1) for vector in (self.source, self.target))  # (nodes, heads)
        scores = at_columns(from_source, edges.pattern) + at_rows(to_target, edges.pattern)  # (entries, heads)
        weights = row_softmax(_masked(F.leaky_relu_(scores, self.slope), edges), edges.pattern)
        weights = dropped(weights, self.dropout, self.training).to_dense()
        return _weighed(weights, h, edges) + self.bias  # eq. (1)


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
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = head_dots(q, k, edges.pattern, self.heads) / math.sqrt(x.shape[1] // self.heads)
        return _weighed(row_softmax(_masked(scores, edges), edges.pattern), v, edges)  # eq. (1)


def _masked(scores: Tensor, edges: Sparse) -> Tensor:
    """The scores of the edges, (entries, heads), -inf where an edge has the weight 0, which does not count."""
    nothing = edges.values == 0
    if not nothing.is_meta and not bool(nothing.any()):
        return scores
    return scores.masked_fill(nothing.unsqueeze(1), -torch.inf)


def _weighed(weights: Tensor, x: Tensor, edges: Sparse) -> Tensor:
    """The sums of what the edges bring in weights of each head, (entries, heads), the heads next to each other."""
    if weights.shape[1] == 1:
        return edges.with_values(weights[:, 0]) @ x  # for one head this is faster
    return head_sums(weights, x, edges.pattern)

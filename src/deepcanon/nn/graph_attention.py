"""Graph attention, message passing with learned weights, and max aggregation over neighbors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import DataError, Graph
from deepcanon.core.checks import at_least
from deepcanon.nn.segment import segment_max


class GraphAttention(nn.Module):
    r"""Graph attention layer (GAT): each node aggregates its neighbors and itself with learned attention weights.

    .. math:: y_v = \sum_{u \to v} \alpha_{vu} W x_u + b, \qquad
              \alpha_{vu} = \operatorname{softmax}_u \operatorname{LeakyReLU}(a_s^\top W x_u + a_t^\top W x_v)
              \qquad (1)

    Every head has weights of its own; their outputs, ``out_features`` each, are concatenated. It is the layer of
    Graph Attention Networks (Veličković et al., 2018), https://arxiv.org/abs/1710.10903.

    >>> layer = GraphAttention(3, 2, heads=4)
    >>> layer(torch.ones(5, 3), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([5, 8])
    """

    def __init__(self, in_features: int, out_features: int, *, heads: int = 1, slope: float = 0.2) -> None:
        super().__init__()
        at_least(1, in_features=in_features, out_features=out_features, heads=heads)
        self.in_features = in_features
        self.heads = heads
        self.slope = slope
        self.weight = nn.Parameter(torch.empty(heads * out_features, in_features))
        self.source = nn.Parameter(torch.empty(heads, out_features))
        self.target = nn.Parameter(torch.empty(heads, out_features))
        self.bias = nn.Parameter(torch.zeros(heads * out_features))
        for parameter in (self.weight, self.source, self.target):
            nn.init.xavier_uniform_(parameter)

    def forward(self, x: Tensor, graph: Graph | Tensor) -> Tensor:
        """The new features of all nodes, (nodes, heads * out_features)."""
        if x.shape[1] != self.in_features:
            raise DataError(f"the layer takes {self.in_features} features per node, got {x.shape[1]}")
        edges = Graph.of(graph, len(x)).operator("gcn", x.dtype)  # for its pattern alone: a self-loop at every node
        h = F.linear(x, self.weight).unflatten(1, (self.heads, -1))  # (nodes, heads, out_features)
        from_source, to_target = ((h * vector).sum(-1) for vector in (self.source, self.target))  # (nodes, heads)
        rows, columns = edges.pattern.rows.long(), edges.pattern.columns.long()
        scores = F.leaky_relu(from_source[columns] + to_target[rows], self.slope)  # (entries, heads)
        scores = scores.masked_fill((edges.values == 0).unsqueeze(1), -torch.inf)  # an edge of weight 0 does not count
        weights = row_softmax(scores, rows, len(x))
        aggregated = [edges.with_values(weights[:, head]) @ h[:, head] for head in range(self.heads)]
        return torch.cat(aggregated, 1) + self.bias  # eq. (1)


def row_softmax(scores: Tensor, rows: Tensor, count: int) -> Tensor:
    """The softmax of ``scores`` (entries, heads) among the entries of each row.

    >>> row_softmax(torch.zeros(3, 1), torch.tensor([0, 0, 1]), 2).flatten()
    tensor([0.5000, 0.5000, 1.0000])
    """
    largest = segment_max(scores.detach(), rows, count)
    weights = (scores - largest[rows]).exp()
    return weights / weights.new_zeros(count, scores.shape[1]).index_add(0, rows, weights)[rows]


def neighbor_max(x: Tensor, graph: Graph | Tensor) -> Tensor:
    """Max aggregation: the largest value of every feature among a node's neighbors, and 0 for a node without any.

    >>> neighbor_max(torch.tensor([[1.0], [5.0], [3.0]]), torch.tensor([[1, 2], [0, 0]]))
    tensor([[5.],
            [0.],
            [0.]])
    """
    source, target = Graph.of(graph, len(x)).edge_index
    return segment_max(x[source], target, len(x))

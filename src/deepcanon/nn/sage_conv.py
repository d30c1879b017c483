"""GraphSAGE layer: a linear map of every node's own features and one of the aggregate of its neighbors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import DataError, Graph, Sparse
from deepcanon.core.checks import at_least, one_of
from deepcanon.nn.message_passing import AGGREGATIONS, Aggregation, aggregate


class SageConv(nn.Module):
    r"""GraphSAGE layer: a node's own features and the sum, mean or maximum of its neighbors', each with a linear map.

    .. math:: y_v = U x_v + W \operatorname{aggregate}_{u \to v} x_u + b \qquad (1)

    It is the layer of Inductive Representation Learning on Large Graphs (Hamilton et al., 2017),
    https://arxiv.org/abs/1706.02216.

    >>> layer = SageConv(3, 2, aggregation="max")
    >>> layer(torch.ones(4, 3), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([4, 2])
    """

    def __init__(self, in_features: int, out_features: int, *, aggregation: Aggregation = "mean") -> None:
        super().__init__()
        at_least(1, in_features=in_features, out_features=out_features)
        one_of(AGGREGATIONS, aggregation=aggregation)
        self.in_features, self.out_features = in_features, out_features
        self.aggregation: Aggregation = aggregation
        self.own = nn.Parameter(torch.empty(out_features, in_features))
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.own)
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The new features of all nodes, (nodes, out_features)."""
        nodes, features = x.shape
        if features != self.in_features:
            raise DataError(f"the layer takes {self.in_features} features per node, got {features}")
        graph = Graph.of(graph, nodes)
        own = x @ self.own.T + self.bias
        # Sums and means are linear: they are taken where there are fewer columns, or where features are sparse.
        if self.aggregation != "max" and (isinstance(x, Sparse) or self.out_features <= self.in_features):
            return own + aggregate(x @ self.weight.T, graph, self.aggregation)
        return own + F.linear(aggregate(x, graph, self.aggregation), self.weight)  # eq. (1)

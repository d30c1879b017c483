"""Graph convolution: message passing over neighbors and a linear map of the features."""

from __future__ import annotations

from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import DataError, Graph, Operator, Sparse
from deepcanon.core.checks import at_least, one_of


class GraphConv(nn.Module):
    r"""Graph convolution layer: a linear map of every node's features, aggregated over its neighbors.

    .. math:: Y = P X W^\top + b \qquad (1)

    The operator :math:`P` is one of those of :class:`Graph`, by default that of GCN. ``x``, (nodes, in_features), may
    be sparse; the graph may also be given as its ``edge_index``, (2, E), but is then sorted anew in every call.

    >>> layer = GraphConv(3, 2)
    >>> layer(torch.ones(4, 3), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([4, 2])
    """

    def __init__(self, in_features: int, out_features: int, *, operator: Operator = "gcn") -> None:
        super().__init__()
        at_least(1, in_features=in_features, out_features=out_features)
        one_of(get_args(Operator), operator=operator)
        self.in_features = in_features
        self.out_features = out_features
        self.operator = operator
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The new features of all nodes, (nodes, out_features)."""
        nodes, features = x.shape
        if features != self.in_features:
            raise DataError(f"the layer takes {self.in_features} features per node, got {features}")
        kind = torch.promote_types(x.dtype, torch.float32)  # sums over neighbors keep their digits
        p = Graph.of(graph, nodes).operator(self.operator, kind)
        if isinstance(x, Sparse):
            return p @ (x @ self.weight.T) + self.bias
        # The product with the operator costs most: it is taken before or after the map, where there are fewer columns.
        if self.in_features * (1 + x.requires_grad) < 2 * self.out_features:
            return F.linear((p @ x).to(x.dtype), self.weight, self.bias)
        return p @ F.linear(x, self.weight) + self.bias  # eq. (1)


def dropped(x: Tensor | Sparse, share: float, training: bool) -> Tensor | Sparse:
    """Dropout of ``x``: this share of its features is set to 0 in training and the others are scaled up.

    Zeros stay zeros either way, so that for sparse features only the entries need be drawn.
    """
    if not training or share == 0:
        return x
    values = x.values if isinstance(x, Sparse) else x
    # Uniform numbers are drawn in a quarter of the time that torch's own dropout takes to draw Bernoulli ones.
    kept = (torch.rand_like(values) >= share).to(values.dtype).mul_(1 / (1 - share))
    return x.with_values(values * kept) if isinstance(x, Sparse) else x * kept

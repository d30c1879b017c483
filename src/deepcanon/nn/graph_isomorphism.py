"""Graph isomorphism layer: message passing by sums, and a network for every node."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import DataError, Graph, Sparse
from deepcanon.core.checks import at_least
from deepcanon.nn.message_passing import aggregate


class GraphIsomorphism(nn.Module):
    r"""Graph isomorphism layer (GIN): a network of two layers on the sum of every node's and its neighbors' features.

    .. math:: y_v = \operatorname{MLP}\Big((1 + \epsilon) x_v + \sum_{u \to v} m_{uv}\Big), \qquad
              m_{uv} = x_u \quad\text{or}\quad \operatorname{ReLU}(x_u + W e_{uv} + b) \qquad (1)

    A sum tells apart what a mean or a maximum does not: how many neighbors of a kind there are (Xu et al., 2019),
    https://arxiv.org/abs/1810.00826. The second kind of message is for edges with features e (Hu et al., 2020),
    https://arxiv.org/abs/1905.12265.

    >>> layer = GraphIsomorphism(3, 2)
    >>> layer(torch.ones(4, 3), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([4, 2])
    """

    def __init__(self, in_features: int, out_features: int, *, edge_features: int | None = None) -> None:
        super().__init__()
        at_least(1, in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.epsilon = nn.Parameter(torch.zeros(()))
        self.mlp = nn.Sequential(nn.Linear(in_features, out_features), nn.ReLU(), nn.Linear(out_features, out_features))
        self.of_edges = None if edge_features is None else nn.Linear(edge_features, in_features)

    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The new features of all nodes, (nodes, out_features)."""
        nodes, features = x.shape
        if features != self.in_features:
            raise DataError(f"the layer takes {self.in_features} features per node, got {features}")
        wanted = None if self.of_edges is None else self.of_edges.in_features
        graph = Graph.of(graph, nodes, wanted)
        first: Any = self.mlp[0]
        # Sums are linear: they are taken after the first map where that has fewer columns, or features are sparse.
        if self.of_edges is None and (isinstance(x, Sparse) or first.out_features < features):
            mapped = x @ first.weight.T
            rows: Tensor = (1 + self.epsilon) * mapped + aggregate(mapped, graph, "sum") + first.bias
        else:
            x = x.to_dense()
            rows = first(torch.addcmul(self._messages(x, graph), x, 1 + self.epsilon))
        for part in list(self.mlp)[1:]:
            rows = part(rows)  # eq. (1)
        return rows

    def _messages(self, x: Tensor, graph: Graph) -> Tensor:
        """The sum of the messages that arrive at every node, in the weights of the edges."""
        if self.of_edges is None or graph.edge_features is None:
            return aggregate(x, graph, "sum")
        source, target = graph.edge_index
        messages = (x[source] + self.of_edges(graph.edge_features.to(x.dtype))).relu()
        if graph.weight is not None:
            messages = messages * graph.weight.to(x.dtype).unsqueeze(1)
        return torch.zeros_like(x).index_add(0, target, messages)

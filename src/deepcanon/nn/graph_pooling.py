"""Pooling of graphs beyond readouts: a global node that all others hear, and soft clusters of nodes (DiffPool)."""

from __future__ import annotations

from torch import Tensor, nn

from deepcanon.core import DataError, Graph
from deepcanon.core.checks import at_least
from deepcanon.nn.graph_conv import GraphConv
from deepcanon.nn.segment import segment_mean, segment_sum


class GlobalNode(nn.Module):
    r"""One more node of every graph, which all others send to and hear from: two steps lead from any node to any other.

    .. math:: g' = \operatorname{ReLU}\Big(U g + W \frac1n \sum_v h_v + b\Big), \qquad h_v' = h_v + V g' \qquad (1)

    It is the master node of Neural Message Passing for Quantum Chemistry (Gilmer et al., 2017),
    https://arxiv.org/abs/1704.01212.
    """

    def __init__(self, width: int, state: int) -> None:
        super().__init__()
        at_least(1, width=width, state=state)
        self.own, self.heard = nn.Linear(state, state, bias=False), nn.Linear(width, state)
        self.told = nn.Linear(state, width, bias=False)

    def forward(self, h: Tensor, g: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """The new features of all nodes, (nodes, width), and the new states of the global nodes, (graphs, state)."""
        owner = graph.membership()
        g = (self.own(g) + self.heard(segment_mean(h, owner, len(g)))).relu()
        return h + self.told(g).index_select(0, owner), g  # eq. (1)


class ClusterPool(nn.Module):
    r"""Pooling by clustering (DiffPool): the nodes of every graph are assigned to k soft clusters, a smaller graph.

    .. math:: S = \operatorname{softmax}(P H W_s^\top + b_s), \qquad X' = S^\top H, \qquad A' = S^\top A S \qquad (1)

    The assignment S of each graph is learned; the paper's auxiliary losses are left out. It is the pooling of
    Hierarchical Graph Representation Learning with Differentiable Pooling (Ying et al., 2018),
    https://arxiv.org/abs/1806.08804.

    >>> import torch
    >>> pair = Graph(torch.tensor([[0, 1], [1, 0]]), nodes=2)
    >>> x, a = ClusterPool(3, 4)(torch.ones(4, 3), Graph.union([pair, pair]))
    >>> x.shape, a.shape
    (torch.Size([2, 4, 3]), torch.Size([2, 4, 4]))
    """

    def __init__(self, width: int, clusters: int) -> None:
        super().__init__()
        at_least(2, clusters=clusters)
        self.clusters = clusters
        self.assign = GraphConv(width, clusters)

    def forward(self, h: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """The clusters' features, (graphs, clusters, width), and their adjacency, (graphs, clusters, clusters)."""
        bare = graph if graph.edge_features is None else Graph(graph.edge_index, graph.nodes, graph.weight, graph.parts)
        return pooled(h, self.assign(h, bare).softmax(-1), bare)  # eq. (1)


def pooled(h: Tensor, shares: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """Features and adjacency of the clusters to which every node belongs by these ``shares``, (nodes, clusters)."""
    if len(h) != graph.nodes or len(shares) != graph.nodes:
        raise DataError(f"graphs of {graph.nodes} nodes need as many rows, got {len(h)} and {len(shares)}")
    graphs, clusters = len(graph.parts) or 1, shares.shape[1]
    owner = graph.membership()
    x = segment_sum((shares.unsqueeze(2) * h.unsqueeze(1)).flatten(1), owner, graphs)
    source, target = graph.edge_index
    heard = shares[target].unsqueeze(2) * shares[source].unsqueeze(1)  # (edges, clusters, clusters)
    heard = heard * graph.weights().to(h.dtype).view(-1, 1, 1)
    a = segment_sum(heard.flatten(1), owner[target], graphs)
    return x.unflatten(1, (clusters, -1)), a.unflatten(1, (clusters, clusters))

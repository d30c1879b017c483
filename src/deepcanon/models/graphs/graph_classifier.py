"""Graph classifier (GIN)."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Graph, LabeledGraphs, Recipe, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.models._predictor import Predictor
from deepcanon.models.graphs._nodes import check_dropout
from deepcanon.nn.graph_conv import GraphConv
from deepcanon.nn.graph_isomorphism import GraphIsomorphism
from deepcanon.nn.graph_pooling import ClusterPool, GlobalNode
from deepcanon.nn.segment import READOUTS, Readout, pool


class GraphClassifier(Predictor):
    r"""A graph neural network of message passing and a readout over the nodes, which classifies whole graphs.

    Also known as: graph isomorphism network, graph-level readout, global pooling, DiffPool.

    .. math:: H_0 = X, \qquad H_l = \sigma(\operatorname{layer}_l(H_{l-1}, A)), \qquad
              r_l = \operatorname{readout}_{v \in G} \big(H_l\big)_v \qquad (1)

    .. math:: \log p(y \mid G) = \log \operatorname{softmax}\Big(\sum_{l=1}^{L} W_l r_l + b\Big)_y \qquad (2)

    The readout is a sum, a mean or a maximum over the nodes of each graph, so that neither their order nor other graphs
    in the batch change it. Every layer is read out: the first see small neighborhoods, the last see far. A layer is a
    graph isomorphism layer, which with sums tells graphs apart as well as the Weisfeiler-Lehman test does, or the
    normalized graph convolution of GCN. Features of edges go into the messages of isomorphism layers.

    With a ``global_node`` every graph has one more node, which all others send to and hear from after each layer, and
    whose last state g is read, too. With ``clusters`` the nodes are pooled by clustering after the last layer: a
    learned assignment S to k soft clusters makes a smaller graph, which has a layer and a readout of its own,

    .. math:: X' = S^\top H_L, \qquad A' = S^\top A S, \qquad
              r' = \operatorname{readout}_{c} \sigma\big((X' + \bar A' X') W'^\top + b'\big)_c \qquad (3)

    where the rows of :math:`\bar A'` are those of :math:`A'` over their sums.

    References:
        | How Powerful are Graph Neural Networks? (Xu et al., 2019), https://arxiv.org/abs/1810.00826
        | Strategies for Pre-training Graph Neural Networks (Hu et al., 2020), https://arxiv.org/abs/1905.12265
        | Neural Message Passing for Quantum Chemistry (Gilmer et al., 2017), https://arxiv.org/abs/1704.01212
        | Hierarchical Graph Representation Learning with Differentiable Pooling (Ying et al., 2018),
          https://arxiv.org/abs/1806.08804

    Arguments:
        features: The number of features of a node.
        classes: The number of classes.
        edge_features: The number of features of an edge, if edges have any.
        hidden: The widths of the layers.
        layer: The kind of the layers: gin, graph isomorphism, or gcn, graph convolution.
        readout: The pooling over the nodes of a graph, and over its clusters.
        global_node: Whether every graph has one more node that all others are joined to.
        clusters: The number of soft clusters that nodes are pooled to after the last layer; 0 leaves them out.
        dropout: The dropout probability of the readouts in training.
    """

    recipe = Recipe(lr=3e-3, batch_size=32, epochs=30, schedule="cosine")

    def __init__(
        self,
        features: int,
        classes: int,
        edge_features: int | None = None,
        hidden: tuple[int, ...] = (32, 32, 32),
        layer: Literal["gin", "gcn"] = "gin",
        readout: Readout = "sum",
        global_node: bool = False,
        clusters: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        at_least(1, features=features, layers=len(hidden))
        one_of(("gin", "gcn"), layer=layer)
        one_of(READOUTS, readout=readout)
        check_dropout(dropout)
        if layer == "gcn" and edge_features is not None:
            raise UsageError(f"gcn layers take no features of edges, got edge_features={edge_features}; gin layers do")
        outputs = self._outputs_for(classes, None, None)
        self.layers = nn.ModuleList(
            GraphConv(before, after) if layer == "gcn" else GraphIsomorphism(before, after, edge_features=edge_features)
            for before, after in pairwise((features, *hidden))
        )
        self.readout: Readout = readout
        self.last = hidden[-1]
        self.dropout = nn.Dropout(dropout)
        self.global_nodes = nn.ModuleList(GlobalNode(width, hidden[-1]) for width in hidden if global_node)
        self.pool = ClusterPool(hidden[-1], clusters) if clusters else None
        self.coarse = nn.Linear(hidden[-1], hidden[-1]) if clusters else None
        self.head = nn.Linear(sum(hidden) + hidden[-1] * (bool(clusters) + global_node), outputs)

    @classmethod
    def batch_type(cls) -> type[AnyBatch]:
        return LabeledGraphs

    @classmethod
    def example(cls) -> tuple[Self, LabeledGraphs]:
        random = torch.Generator().manual_seed(0)
        graphs: list[Graph] = []
        for nodes in (5, 3, 6, 4, 7, 5):  # rings and stars
            around, center = torch.arange(nodes), torch.zeros(nodes - 1, dtype=torch.long)
            ring = len(graphs) % 2 == 0
            half = torch.stack([around, around.roll(1)] if ring else [center, torch.arange(1, nodes)])
            graphs.append(Graph(torch.cat([half, half.flip(0)], 1), nodes))
        union = Graph.union(graphs)
        x = 1 + 0.3 * torch.randn(union.nodes, 3, generator=random)
        y = torch.arange(len(graphs)) % 2
        return cls(features=3, classes=2, hidden=(8, 8)), LabeledGraphs(x=x, y=y, graph=union)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """The logits of every graph in the union, (graphs, classes)."""
        logits: Tensor = self.head(self.dropout(self.embed(x, graph)))  # eq. (2)
        return logits

    def embed(self, x: Tensor, graph: Graph) -> Tensor:
        """The embedding of every graph: the readouts of all layers next to each other, (graphs, widths)."""
        read, g = [], x.new_zeros(len(graph.parts) or 1, self.last)
        for number, layer in enumerate(self.layers):
            x = layer(x, graph).relu()
            if self.global_nodes:
                x, g = self.global_nodes[number](x, g, graph)
            read.append(pool(x, graph, self.readout))  # eq. (1)
        if self.global_nodes:
            read.append(g)
        if self.pool is not None and self.coarse is not None:
            clusters, joined = self.pool(x, graph)
            mean = joined / joined.sum(2, keepdim=True).clamp_min(1e-12)
            coarse = self.coarse(clusters + mean @ clusters).relu()
            read.append({"sum": coarse.sum(1), "mean": coarse.mean(1), "max": coarse.amax(1)}[self.readout])  # eq. (3)
        return torch.cat(read, 1)

"""Edge classifier."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, DataError, Graph, LabeledPairs, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models._predictor import Predictor
from deepcanon.models.graphs._nodes import check_dropout
from deepcanon.nn.graph_conv import dropped
from deepcanon.nn.graph_isomorphism import GraphIsomorphism


class EdgeClassifier(Predictor):
    r"""A graph neural network that embeds the nodes and classifies edges by their ends and their own features.

    Also known as: edge classification, relation classification, edge-level prediction.

    .. math:: H_0 = X, \qquad
              h_v^{(l)} = \sigma\Big(\operatorname{MLP}_l\Big((1 + \epsilon_l)\, h_v^{(l-1)} +
              \sum_{u \to v} m_{uv}\Big)\Big), \qquad
              m_{uv} = \operatorname{ReLU}(h_u^{(l-1)} + W_l e_{uv} + b_l) \qquad (1)

    .. math:: \log p(y_{uv} \mid X, A, E) = \log \operatorname{softmax}
              \big(\operatorname{MLP}[h_u + h_v,\; |h_u - h_v|,\; e_{uv}]\big)_{y_{uv}} \qquad (2)

    Features e of edges go into the messages and into the classification; without any, messages are the neighbors'
    features. The class of an edge is the same in both directions, unless they are told apart: then the classification
    reads :math:`[h_u, h_v, e_{uv}]`. All edges are known, also those whose class is to be predicted.

    References:
        | Strategies for Pre-training Graph Neural Networks (Hu et al., 2020), https://arxiv.org/abs/1905.12265

    Arguments:
        features: The number of features of a node.
        classes: The number of classes.
        edge_features: The number of features of an edge, if edges have any.
        hidden: The widths of the graph layers.
        units: The number of hidden units of the classification.
        directions: Whether an edge may have another class than the one in the other direction.
        dropout: The dropout probability of the inputs of each layer in training.
    """

    recipe = Recipe(optimizer="adam:weight_decay=0.0005", lr=0.005, batch_size=1, epochs=150, schedule="cosine")
    default_data = "planted-edges"

    def __init__(
        self,
        features: int,
        classes: int,
        edge_features: int | None = None,
        hidden: tuple[int, ...] = (32, 32),
        units: int = 32,
        directions: bool = False,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        at_least(1, features=features, layers=len(hidden), units=units)
        check_dropout(dropout)
        outputs = self._outputs_for(classes, None, None)
        self.directions, self.dropout = directions, dropout
        self.layers = nn.ModuleList(
            GraphIsomorphism(before, after, edge_features=edge_features)
            for before, after in pairwise((features, *hidden))
        )
        read = 2 * hidden[-1] + (edge_features or 0)
        self.head = nn.Sequential(nn.Linear(read, units), nn.ReLU(), nn.Linear(units, outputs))

    @classmethod
    def batch_type(cls) -> type[AnyBatch]:
        return LabeledPairs

    @classmethod
    def example(cls) -> tuple[Self, LabeledPairs]:
        random = torch.Generator().manual_seed(0)
        ring = torch.arange(12)
        pairs = torch.cat([torch.stack([ring, ring.roll(1)]), torch.stack([ring, ring.roll(3)])], 1)
        features = torch.randn(24, 2, generator=random)
        graph = Graph(torch.cat([pairs, pairs.flip(0)], 1), 12, edge_features=features.repeat(2, 1))
        y = (features[:, 0] > 0).long()
        model = cls(features=3, classes=2, edge_features=2, hidden=(8,), units=8)
        return model, LabeledPairs(x=torch.randn(12, 3, generator=random), y=y, graph=graph, pairs=pairs)

    def forward(self, x: Tensor, graph: Graph, pairs: Tensor) -> Tensor:
        """The logits of the edges between the nodes of every pair, (pairs, classes)."""
        if pairs.ndim != 2 or pairs.shape[0] != 2:
            raise DataError(f"pairs must have the shape (2, pairs), got {tuple(pairs.shape)}")
        u, v = dropped(self.embed(x, graph), self.dropout, self.training).to_dense()[pairs]
        read = [u, v] if self.directions else [u + v, (u - v).abs()]
        if graph.edge_features is not None:
            read.append(graph.edge_features.to(u.dtype)[edges_between(graph, pairs)])
        logits: Tensor = self.head(torch.cat(read, 1))  # eq. (2)
        return logits

    def embed(self, x: Tensor, graph: Graph) -> Tensor:
        """The embedding of every node, (nodes, width)."""
        for layer in self.layers:
            x = layer(dropped(x, self.dropout, self.training), graph).relu()  # eq. (1)
        return x


def edges_between(graph: Graph, pairs: Tensor) -> Tensor:
    """The number of the edge from the first to the second node of each pair, (pairs,); of several, the first listed.

    >>> edges_between(Graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3), torch.tensor([[2, 0], [0, 1]]))
    tensor([2, 0])
    """
    source, target = graph.edge_index
    if pairs.is_meta:
        return torch.empty_like(pairs[0])
    keys, order = (source * graph.nodes + target).sort(stable=True)
    wanted = pairs[0] * graph.nodes + pairs[1]
    place = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
    if not len(keys) or bool((missing := keys[place] != wanted).any()):
        a, b = pairs[:, int(missing.int().argmax()) if len(keys) else 0].tolist()
        raise DataError(f"no edge leads from node {a} to node {b}; pairs to be classified are edges of the graph")
    found: Tensor = order[place]
    return found

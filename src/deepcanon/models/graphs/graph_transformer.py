"""Graph transformer."""

from __future__ import annotations

from typing import Literal, Self

import torch
from torch import Tensor, nn

from deepcanon.core import Graph, GraphBatch, Recipe, Sparse
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._nodes import NodeClassifier, check_dropout
from deepcanon.nn.component_attention import Attends, GraphTransformerBlock
from deepcanon.nn.graph_conv import dropped


class GraphTransformer(NodeClassifier):
    r"""A transformer of a graph's nodes with positions by Laplacian eigenvectors, which classifies the nodes.

    Also known as: graph attention with Laplacian positional encodings.

    .. math:: h_v^{(0)} = E x_v + P \lambda_v + b, \qquad \lambda_v = \sqrt n\, (q_1(v), \dots, q_k(v)) \qquad (1)

    .. math:: H^{(l)} = \operatorname{block}_l(H^{(l-1)}, A), \qquad
              \log p(y_v \mid X, A) = \log \operatorname{softmax}(V h_v^{(L)} + c)_{y_v} \qquad (2)

    A block is multi-head attention and a network at every node, each with layer normalization before it and a residual
    connection around it. Nodes attend to all others of their connected component, so that one layer reaches however
    far, or to their neighbors. :math:`q_1, q_2, \dots` are the eigenvectors of the component's symmetric Laplacian
    after the constant one: they say where a node is, and their inner products how far two nodes are from each other.
    Eigenvectors have no sign of their own. Theirs is chosen by a rule, the largest entry being positive, and in
    training the signs are flipped at random, so that the network learns not to depend on them. Where an eigenvalue
    occurs several times, its eigenvectors are some basis of their space, which the order of the nodes may change.

    References:
        | A Generalization of Transformer Networks to Graphs (Dwivedi and Bresson, 2021),
          https://arxiv.org/abs/2012.09699

    Arguments:
        features: The number of features of a node.
        classes: The number of classes.
        units: The width of the features within the network.
        layers: The number of blocks.
        heads: The number of heads of attention.
        positions: The number k of eigenvectors; 0 leaves positions out.
        attends: Whom a node attends to: all nodes of its component, or its neighbors.
        dropout: The dropout probability of the features and of what a block adds, in training.
    """

    recipe = Recipe(optimizer="adamw", lr=2e-3, batch_size=1, epochs=150, schedule="cosine")
    default_data = "ring-of-cliques"

    def __init__(
        self,
        features: int,
        classes: int,
        units: int = 32,
        layers: int = 2,
        heads: int = 4,
        positions: int = 4,
        attends: Attends = "all",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        at_least(1, features=features, units=units, layers=layers)
        at_least(0, positions=positions)
        at_least(2, classes=classes)
        check_dropout(dropout)
        self.reach: Literal["component", "edges"] = "component" if attends == "all" else "edges"
        self.positions, self.dropout = positions, dropout
        self.input = nn.Parameter(torch.empty(units, features))
        self.place = nn.Linear(positions, units) if positions else None
        self.blocks = nn.ModuleList(
            GraphTransformerBlock(units, heads=heads, attends=attends, dropout=dropout) for _ in range(layers)
        )
        self.head = nn.Linear(units, classes)
        nn.init.xavier_uniform_(self.input)

    @classmethod
    def example(cls) -> tuple[Self, GraphBatch]:
        random = torch.Generator().manual_seed(0)
        tree = torch.tensor([[0, 1, 1, 3, 4, 4, 6, 7, 7], [1, 2, 3, 4, 5, 6, 7, 8, 9]])  # without symmetries
        more = torch.tensor([[2, 5, 0], [3, 8, 9]])
        half = torch.cat([tree, more], 1)
        graph = Graph(torch.cat([half, half.flip(0)], 1), 10)
        y = torch.arange(10) // 5
        x = torch.randn(10, 3, generator=random) + y.unsqueeze(1)
        model = cls(features=3, classes=2, units=8, heads=2, positions=2)
        return model, GraphBatch(x=x, y=y, mask=torch.arange(10) % 2 == 0, graph=graph)

    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The logits of every node, (nodes, classes); the graph may be given as its ``edge_index``."""
        logits: Tensor = self.head(self.embed(x, graph))
        return logits

    def embed(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The features of all nodes after the last block, (nodes, units)."""
        graph = Graph.of(graph, x.shape[0])
        h = dropped(x, self.dropout, self.training) @ self.input.T
        if self.place is not None:
            h = h + self.place(self._positions(graph).to(h.dtype))  # eq. (1)
        for block in self.blocks:
            h = block(h, graph)  # eq. (2)
        return h

    def _positions(self, graph: Graph) -> Tensor:
        """The positions of all nodes; in training, each eigenvector of each component with a random sign."""
        found = graph.positions(self.positions)
        if not self.training or found.is_meta:
            return found
        owner = graph.components()
        flips = torch.rand(int(owner.max()) + 1, self.positions, device=found.device) < 0.5
        return torch.where(flips[owner], -found, found)

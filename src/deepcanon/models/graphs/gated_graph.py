"""Gated graph neural network (GGNN)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Graph, GraphBatch, Recipe, Sparse
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._nodes import NodeClassifier, check_dropout, ring_batch
from deepcanon.nn.gated_conv import GatedConv
from deepcanon.nn.graph_conv import dropped
from deepcanon.nn.message_passing import Aggregation


class GatedGraph(NodeClassifier):
    r"""A recurrent graph network: T steps of messages that a GRU at every node takes in, which classifies the nodes.

    Also known as: GG-NN, gated graph sequence neural network, recurrent graph neural network.

    .. math:: h_v^{(0)} = E x_v, \qquad
              h_v^{(t)} = \operatorname{GRU}\Big(\operatorname{aggregate}_{u \to v} W h_u^{(t-1)},\; h_v^{(t-1)}\Big)
              \qquad (1)

    .. math:: \log p(y_v \mid X, A) = \log \operatorname{softmax}\big(V [h_v^{(T)}, E x_v] + b\big)_{y_v} \qquad (2)

    All steps have the same weights, so that the number of them can be changed after the training. The gates keep what
    a node knows while messages pass, and gradients from vanishing on the way. Unlike ``fixed_point_network`` it stops
    after T steps, wherever it is, and its gradient goes back through all of them.

    References:
        | Gated Graph Sequence Neural Networks (Li et al., 2016), https://arxiv.org/abs/1511.05493

    Arguments:
        features: The number of features of a node.
        classes: The number of classes.
        units: The number of units of a node's state.
        rounds: The number of steps T: how many edges far a node sees.
        aggregation: The aggregation of the messages: sum, mean or max.
        dropout: The dropout probability of the features and of the states that are classified, in training.
    """

    recipe = Recipe(optimizer="adam:weight_decay=0.0005", lr=0.005, batch_size=1, epochs=100)

    def __init__(
        self,
        features: int,
        classes: int,
        units: int = 16,
        rounds: int = 3,
        aggregation: Aggregation = "mean",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        at_least(1, features=features, units=units, rounds=rounds)
        at_least(2, classes=classes)
        check_dropout(dropout)
        self.dropout = dropout
        self.input = nn.Parameter(torch.empty(units, features))
        self.recurrent = GatedConv(units, rounds, aggregation=aggregation)
        self.head = nn.Linear(2 * units, classes)
        nn.init.xavier_uniform_(self.input)

    @classmethod
    def example(cls) -> tuple[Self, GraphBatch]:
        return cls(features=3, classes=2, units=8), ring_batch()

    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The logits of every node, (nodes, classes); the graph may be given as its ``edge_index``."""
        states = dropped(self.embed(x, graph), self.dropout, self.training)
        logits: Tensor = self.head(states)  # eq. (2)
        return logits

    def embed(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The states of all nodes after the last step, next to those before the first, (nodes, 2 units)."""
        first = dropped(x, self.dropout, self.training) @ self.input.T
        return torch.cat([self.recurrent(first, graph), first], 1)  # eq. (1)

"""Fixed-point graph network."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Graph, GraphBatch, Recipe, Sparse, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._nodes import NodeClassifier, check_dropout, ring_batch
from deepcanon.nn.fixed_point import fixed_point
from deepcanon.nn.graph_conv import dropped


class FixedPointNetwork(NodeClassifier):
    r"""A recurrent graph network that passes messages until nothing changes, which classifies the nodes.

    Also known as: recurrent graph neural network, implicit graph network, equilibrium model.

    .. math:: h_v = \tanh\Big(W \frac1{\deg v} \sum_{u \to v} h_u + U x_v + b\Big) \quad\text{for all nodes } v
              \qquad (1)

    The states of all nodes are the solution of this equation: one layer, repeated to its fixed point, so that every
    node hears of every other that it is connected to. The solution is unique and found by iteration because a step is a
    contraction: means do not stretch, nor does tanh, and the weights of the messages are kept from it,

    .. math:: W = \min\Big(1, \frac{\rho}{\lVert V \rVert_2}\Big) V, \qquad \rho < 1. \qquad (2)

    The gradient does not go back through the iteration. It is that of one step at the solution, with an adjoint that is
    a fixed point itself (Almeida and Pineda), so that memory does not grow with the number of steps.

    References:
        | The Graph Neural Network Model (Scarselli et al., 2009), https://doi.org/10.1109/TNN.2008.2005605
        | Generalization of Back-Propagation to Recurrent Neural Networks (Pineda, 1987),
          https://doi.org/10.1103/PhysRevLett.59.2229

    Arguments:
        features: The number of features of a node.
        classes: The number of classes.
        units: The number of units of a node's state.
        contraction: The bound :math:`\rho` on the norm of the weights, at least 0 and below 1.
        dropout: The dropout probability of the features and of the states that are classified, in training.
    """

    recipe = Recipe(optimizer="adam:weight_decay=0.0005", lr=0.01, batch_size=1, epochs=200)

    def __init__(
        self, features: int, classes: int, units: int = 16, contraction: float = 0.9, dropout: float = 0.5
    ) -> None:
        super().__init__()
        at_least(1, features=features, units=units)
        at_least(2, classes=classes)
        if not 0 <= contraction < 1:
            raise UsageError(f"contraction is the bound on the norm of the weights, 0 to below 1 (got {contraction})")
        check_dropout(dropout)
        self.contraction, self.dropout = contraction, dropout
        self.message = nn.Parameter(torch.empty(units, units))
        self.input = nn.Parameter(torch.empty(units, features))
        self.bias = nn.Parameter(torch.zeros(units))
        self.head = nn.Linear(units, classes)
        nn.init.xavier_uniform_(self.message)
        nn.init.xavier_uniform_(self.input)

    @classmethod
    def example(cls) -> tuple[Self, GraphBatch]:
        return cls(features=3, classes=2, units=8), ring_batch()

    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The logits of every node, (nodes, classes); the graph may be given as its ``edge_index``."""
        states = dropped(self.embed(x, graph), self.dropout, self.training)
        logits: Tensor = self.head(states)
        return logits

    def embed(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The states of all nodes at the fixed point, (nodes, units)."""
        norm = torch.linalg.matrix_norm(self.message, 2)
        weight = self.message * (self.contraction / norm).clamp_max(1)  # eq. (2)
        given = dropped(x, self.dropout, self.training) @ self.input.T + self.bias
        mean = Graph.of(graph, x.shape[0]).operator("random_walk", torch.promote_types(given.dtype, torch.float32))
        return fixed_point(lambda h: (mean @ (h @ weight.T) + given).tanh(), torch.zeros_like(given))  # eq. (1)

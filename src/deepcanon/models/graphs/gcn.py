"""Graph convolutional network (GCN)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

from torch import Tensor

from deepcanon.core import GraphBatch, Operator, Recipe, Terms, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._nodes import NodeNetwork, ring_batch
from deepcanon.nn.activations import Activation
from deepcanon.nn.graph_conv import GraphConv


class GCN(NodeNetwork):
    r"""A graph neural network of message passing over normalized neighborhoods, which classifies the nodes.

    Also known as: graph neural network (GNN), message-passing network, spectral graph convolution.

    .. math:: H_0 = X, \qquad H_l = \sigma(P H_{l-1} W_l^\top + b_l), \qquad
              P = \tilde D^{-1/2} \tilde A \tilde D^{-1/2}, \quad \tilde A = A + I \qquad (1)

    :math:`\tilde D` holds the degrees of :math:`\tilde A`. Multiplying by P is one step of message passing: each node
    aggregates its own features and those of its neighbors. The last layer has no activation: it gives logits. With
    :math:`L` layers the receptive field of a node are the nodes at most :math:`L` edges away, labeled or not. The first
    layer overfits most easily, so that the loss on the labeled nodes has weight decay for it alone,

    .. math:: \mathcal L = -\frac1{|M|} \sum_{v \in M} \log \operatorname{softmax}(H_L)_{v, y_v}
              + \frac\lambda2 \lVert W_1 \rVert^2. \qquad (2)

    References:
        | Semi-Supervised Classification with Graph Convolutional Networks (Kipf and Welling, 2017),
          https://arxiv.org/abs/1609.02907

    Arguments:
        features: The number of features of a node.
        classes: The number of classes.
        hidden: The widths of the hidden layers.
        operator: The aggregation of neighbors: the name of an operator of the graph, by default :math:`P`.
        activation: The activation :math:`\sigma` by name.
        dropout: The dropout probability of the inputs of each layer in training.
        decay: The weight decay :math:`\lambda` of the first layer.
    """

    recipe = Recipe(lr=0.01, batch_size=1, epochs=200)

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: tuple[int, ...] = (16,),
        operator: Operator = "gcn",
        activation: Activation = "relu",
        dropout: float = 0.5,
        decay: float = 5e-4,
    ) -> None:
        super().__init__()
        at_least(2, classes=classes)
        if decay < 0:
            raise UsageError(f"decay is the weight decay of the first layer, at least 0 (got {decay})")
        widths = pairwise((features, *hidden, classes))
        layers = (GraphConv(before, after, operator=operator) for before, after in widths)
        self._layered(layers, activation, dropout)  # eq. (1)
        self.decay = decay

    @classmethod
    def example(cls) -> tuple[Self, GraphBatch]:
        return cls(features=3, classes=2, hidden=(8,)), ring_batch()

    def _loss_of(self, logits: Tensor, y: Tensor) -> Terms:
        terms = super()._loss_of(logits, y)
        if self.decay:
            weight: Any = self.convs[0].weight  # an insight may have a plain tensor stand for it
            terms["decay"] = 0.5 * self.decay * weight.square().sum()  # eq. (2)
        return terms

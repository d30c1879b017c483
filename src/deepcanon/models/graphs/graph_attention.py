"""Graph attention network (GAT)."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

from deepcanon.core import GraphBatch, Recipe, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._nodes import NodeNetwork, ring_batch
from deepcanon.nn.activations import Activation
from deepcanon.nn.graph_attention import AttentionConv


class GraphAttention(NodeNetwork):
    r"""A graph neural network whose nodes weigh their neighbors by attention, which classifies the nodes.

    Also known as: attentional message passing, neighborhood attention.

    .. math:: h_v^{(l)} = \sigma\Big(\Big\Vert_{k=1}^{K} \sum_{u \to v} \alpha_{vu}^k W_k h_u^{(l-1)} + b\Big), \qquad
              \alpha_{vu}^k = \operatorname{softmax}_u \operatorname{LeakyReLU}
              (a_k^\top W_k h_u^{(l-1)} + c_k^\top W_k h_v^{(l-1)}) \qquad (1)

    Every node is a neighbor of itself. The K heads attend each by weights of their own, and their outputs are
    concatenated; the last layer has one head and no activation: it gives logits. Unlike the weights of GCN, which
    follow from the degrees, those of attention depend on what the nodes are. Dropout leaves out features and attention
    weights, so that every step sees a sample of the neighbors.

    References:
        | Graph Attention Networks (Veličković et al., 2018), https://arxiv.org/abs/1710.10903

    Arguments:
        features: The number of features of a node.
        classes: The number of classes.
        hidden: The widths of the hidden layers, the outputs of all heads together.
        heads: The number of heads of a hidden layer.
        activation: The activation :math:`\sigma` by name.
        dropout: The dropout probability of the inputs of each layer and of attention weights in training.
    """

    recipe = Recipe(optimizer="adam:weight_decay=0.0005", lr=0.005, batch_size=1, epochs=200)

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: tuple[int, ...] = (64,),
        heads: int = 8,
        activation: Activation = "elu",
        dropout: float = 0.6,
    ) -> None:
        super().__init__()
        at_least(2, classes=classes)
        at_least(1, heads=heads)
        if any(width % heads for width in hidden):
            raise UsageError(f"the heads share the widths: {hidden} must be multiples of heads (got {heads})")
        layers = [
            AttentionConv(before, after // heads, heads=heads, dropout=dropout)
            for before, after in pairwise((features, *hidden))
        ]
        last = AttentionConv((features, *hidden)[-1], classes, dropout=dropout)
        self._layered([*layers, last], activation, dropout)  # eq. (1)

    @classmethod
    def example(cls) -> tuple[Self, GraphBatch]:
        return cls(features=3, classes=2, hidden=(8,), heads=2), ring_batch()

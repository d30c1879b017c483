"""GraphSAGE."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

from deepcanon.core import GraphBatch, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._nodes import NodeNetwork, ring_batch
from deepcanon.nn.activations import Activation
from deepcanon.nn.message_passing import Aggregation
from deepcanon.nn.sage_conv import SageConv


class Sage(NodeNetwork):
    r"""A graph neural network of own features next to the aggregate of the neighbors', which classifies the nodes.

    Also known as: sample and aggregate, inductive representation learning.

    .. math:: H_0 = X, \qquad
              h_v^{(l)} = \sigma\Big(U_l h_v^{(l-1)} + W_l \operatorname{aggregate}_{u \to v} h_u^{(l-1)} + b_l\Big)
              \qquad (1)

    The aggregate of the neighbors is their sum, mean or maximum. A node's own features have weights of their own, so
    that they are not lost among the neighbors', and nothing depends on the graph as a whole: a trained network can be
    applied to nodes and graphs that it has never seen. All neighbors are used; the paper samples some of them to bound
    the time of a step. The last layer has no activation: it gives logits.

    References:
        | Inductive Representation Learning on Large Graphs (Hamilton et al., 2017), https://arxiv.org/abs/1706.02216

    Arguments:
        features: The number of features of a node.
        classes: The number of classes.
        hidden: The widths of the hidden layers.
        aggregation: The aggregation over the neighbors: sum, mean or max.
        activation: The activation :math:`\sigma` by name.
        dropout: The dropout probability of the inputs of each layer in training.
    """

    recipe = Recipe(optimizer="adam:weight_decay=0.0005", lr=0.01, batch_size=1, epochs=200)

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: tuple[int, ...] = (16,),
        aggregation: Aggregation = "mean",
        activation: Activation = "relu",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        at_least(2, classes=classes)
        widths = pairwise((features, *hidden, classes))
        layers = (SageConv(before, after, aggregation=aggregation) for before, after in widths)
        self._layered(layers, activation, dropout)  # eq. (1)

    @classmethod
    def example(cls) -> tuple[Self, GraphBatch]:
        return cls(features=3, classes=2, hidden=(8,)), ring_batch()

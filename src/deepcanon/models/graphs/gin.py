"""Graph isomorphism network (GIN)."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

from deepcanon.core import GraphBatch, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._nodes import AtEveryNode, NodeNetwork, ring_batch
from deepcanon.nn.activations import Activation
from deepcanon.nn.graph_isomorphism import GraphIsomorphism


class GIN(NodeNetwork):
    r"""A graph neural network of sums over neighbors and a network at every node, which classifies the nodes.

    Also known as: sum aggregation, Weisfeiler-Lehman network.

    .. math:: H_0 = X, \qquad
              h_v^{(l)} = \sigma\Big(\operatorname{MLP}_l\Big((1 + \epsilon_l)\, h_v^{(l-1)}
              + \sum_{u \to v} h_u^{(l-1)}\Big)\Big), \qquad
              \log p(y_v \mid X, A) = \log \operatorname{softmax}(V h_v^{(L)} + b)_{y_v} \qquad (1)

    The sum over a multiset of neighbors, followed by a network, can tell any two multisets apart; means and maxima
    cannot tell how many neighbors there are. The model of whole graphs with these layers is ``graph_classifier``.

    References:
        | How Powerful are Graph Neural Networks? (Xu et al., 2019), https://arxiv.org/abs/1810.00826

    Arguments:
        features: The number of features of a node.
        classes: The number of classes.
        edge_features: The number of features of an edge, if edges have any.
        hidden: The widths of the layers, of which there is at least one.
        activation: The activation :math:`\sigma` by name.
        dropout: The dropout probability of the inputs of each layer in training.
    """

    recipe = Recipe(optimizer="adam:weight_decay=0.0005", lr=0.005, batch_size=1, epochs=200)

    def __init__(
        self,
        features: int,
        classes: int,
        edge_features: int | None = None,
        hidden: tuple[int, ...] = (16, 16),
        activation: Activation = "relu",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        at_least(2, classes=classes)
        at_least(1, layers=len(hidden))
        widths = pairwise((features, *hidden))
        layers = [GraphIsomorphism(before, after, edge_features=edge_features) for before, after in widths]
        self._layered([*layers, AtEveryNode(hidden[-1], classes)], activation, dropout)  # eq. (1)

    @classmethod
    def example(cls) -> tuple[Self, GraphBatch]:
        return cls(features=3, classes=2, hidden=(8,)), ring_batch()

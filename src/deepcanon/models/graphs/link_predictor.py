"""Link predictor (graph autoencoder)."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, DataError, Graph, LabeledPairs, Recipe, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models._predictor import Predictor
from deepcanon.models.graphs._nodes import check_dropout
from deepcanon.nn.graph_conv import GraphConv, dropped


class LinkPredictor(Predictor):
    r"""A graph neural network that embeds the nodes and predicts by inner products which pairs are linked.

    Also known as: GAE, link prediction, inner-product decoder.

    .. math:: Z = P \, \sigma(\cdots \sigma(P X W_1^\top + b_1) \cdots)\, W_L^\top + b_L \qquad (1)

    .. math:: p(u \sim v) = \frac1{1 + \exp(-z_u^\top z_v - c)} \qquad (2)

    :math:`P` is the normalized adjacency of GCN, of the edges that are known; links to be predicted must not be among
    them. The pairs in the loss are edges and as many pairs without an edge. The probability of a pair is the same in
    both directions.

    References:
        | Variational Graph Auto-Encoders (Kipf and Welling, 2016), https://arxiv.org/abs/1611.07308

    Arguments:
        features: The number of features of a node.
        classes: Two: no link, and a link.
        hidden: The widths of the hidden layers.
        latent: The width of the embedding z of a node.
        dropout: The dropout probability of the inputs of each layer in training.
    """

    recipe = Recipe(lr=0.01, batch_size=1, epochs=200)

    def __init__(
        self,
        features: int,
        classes: Literal[2] = 2,
        hidden: tuple[int, ...] = (32,),
        latent: int = 16,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        at_least(1, features=features, latent=latent)
        if classes != 2:
            raise UsageError(f"a pair is linked or not, which are 2 classes (got classes={classes})")
        check_dropout(dropout)
        self.classes = classes
        self.convs = nn.ModuleList(GraphConv(before, after) for before, after in pairwise((features, *hidden, latent)))
        self.bias = nn.Parameter(torch.zeros(()))
        self.dropout = dropout

    @classmethod
    def batch_type(cls) -> type[AnyBatch]:
        return LabeledPairs

    @classmethod
    def example(cls) -> tuple[Self, LabeledPairs]:
        random = torch.Generator().manual_seed(0)
        ring = torch.arange(12)
        known = torch.stack([ring, ring.roll(1)])[:, ring % 4 != 0]
        graph = Graph(torch.cat([known, known.flip(0)], 1), 12)
        pairs = torch.cat([torch.stack([ring, ring.roll(1)]), torch.stack([ring, ring.roll(5)])], 1)
        y = torch.arange(24).lt(12).long()
        x = torch.randn(12, 3, generator=random)
        return cls(features=3, hidden=(8,), latent=4), LabeledPairs(x=x, y=y, graph=graph, pairs=pairs)

    def forward(self, x: Tensor, graph: Graph, pairs: Tensor) -> Tensor:
        """The logits of no link and of a link between the nodes of every pair, (pairs, 2)."""
        if pairs.ndim != 2 or pairs.shape[0] != 2:
            raise DataError(f"pairs must have the shape (2, pairs), got {tuple(pairs.shape)}")
        source, target = self.embed(x, graph)[pairs]
        score = (source * target).sum(-1) + self.bias  # eq. (2)
        return torch.stack([torch.zeros_like(score), score], 1)

    def embed(self, x: Tensor, graph: Graph) -> Tensor:
        """The embedding of every node, (nodes, latent)."""
        z: Tensor = self.convs[0](dropped(x, self.dropout, self.training), graph)
        for conv in self.convs[1:]:
            z = conv(dropped(z.relu(), self.dropout, self.training), graph)  # eq. (1)
        return z

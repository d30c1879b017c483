"""Spectral graph network (ChebNet)."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Graph, GraphBatch, Recipe, Sparse, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._nodes import NodeClassifier
from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.nn.graph_conv import dropped
from deepcanon.nn.graph_spectral import SpectralConv


class SpectralNetwork(NodeClassifier):
    r"""A graph neural network of learned filters of the graph's frequencies, which classifies the nodes.

    Also known as: Chebyshev network, spectral convolution, graph Fourier transform.

    With the symmetric Laplacian :math:`L = I - D^{-1/2} A D^{-1/2} = Q \Lambda Q^\top`, the graph Fourier transform of
    a signal is :math:`\hat x = Q^\top x`, and a filter multiplies every frequency :math:`\lambda_i` by a response
    :math:`g(\lambda_i)`. A layer has a filter for every pair of features in and out, learned as a polynomial,

    .. math:: g(\lambda) = \sum_{k=0}^{K} w_k T_k(\lambda - 1), \qquad
              H_l = \sigma\Big(\sum_{k=0}^{K} T_k(L - I)\, H_{l-1} W_{l,k}^\top + b_l\Big),
              \qquad H_0 = X. \qquad (1)

    :math:`T_k` are the Chebyshev polynomials. As a polynomial, a filter is computed by K products with L and reaches K
    edges far. With ``frequencies``, it is computed by the eigenvectors of that many lowest frequencies instead; the
    higher ones do not pass. With all of them both are the same. The last layer has no activation: it gives logits.

    References:
        | Spectral Networks and Deep Locally Connected Networks on Graphs (Bruna et al., 2014),
          https://arxiv.org/abs/1312.6203
        | Convolutional Neural Networks on Graphs with Fast Localized Spectral Filtering (Defferrard et al., 2016),
          https://arxiv.org/abs/1606.09375

    Arguments:
        features: The number of features of a node.
        classes: The number of classes.
        hidden: The widths of the hidden layers.
        order: The order K of the polynomials.
        frequencies: The number of the lowest frequencies that pass; by default, all do.
        activation: The activation :math:`\sigma` by name.
        dropout: The dropout probability of the inputs of each layer in training.
    """

    recipe = Recipe(optimizer="adam:weight_decay=0.0005", lr=0.01, batch_size=1, epochs=200)

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: tuple[int, ...] = (16,),
        order: int = 2,
        frequencies: int | None = None,
        activation: Activation = "relu",
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        at_least(2, classes=classes)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout is the probability to drop a feature, from 0 to below 1 (got {dropout})")
        self.convs = nn.ModuleList(
            SpectralConv(before, after, order=order, frequencies=frequencies)
            for before, after in pairwise((features, *hidden, classes))
        )
        self.activation = activation_layer(activation)
        self.dropout = dropout

    @classmethod
    def example(cls) -> tuple[Self, GraphBatch]:
        random = torch.Generator().manual_seed(0)
        ring = torch.arange(12)
        edges = torch.cat([torch.stack([ring, ring.roll(1)]), torch.stack([ring.roll(1), ring])], 1)
        y = (ring >= 6).long()
        x = torch.randn(12, 3, generator=random) + y.unsqueeze(1)
        return cls(features=3, classes=2, hidden=(8,)), GraphBatch(x=x, y=y, mask=ring % 2 == 0, graph=Graph(edges, 12))

    def forward(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The logits of every node, (nodes, classes); the graph may be given as its ``edge_index``."""
        logits: Tensor = self.convs[-1](dropped(self._hidden(x, graph), self.dropout, self.training), graph)
        return logits

    def embed(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor:
        """The node embeddings of the last hidden layer, (nodes, width); without one, the features themselves."""
        return self._hidden(x, graph).to_dense()

    def _hidden(self, x: Tensor | Sparse, graph: Graph | Tensor) -> Tensor | Sparse:
        for conv in self.convs[:-1]:
            x = self.activation(conv(dropped(x, self.dropout, self.training), graph))  # eq. (1)
        return x

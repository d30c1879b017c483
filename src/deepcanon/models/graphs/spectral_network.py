"""Spectral graph network (ChebNet)."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

from deepcanon.core import GraphBatch, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.graphs._nodes import NodeNetwork, ring_batch
from deepcanon.nn.activations import Activation
from deepcanon.nn.graph_spectral import SpectralConv


class SpectralNetwork(NodeNetwork):
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
        layers = (
            SpectralConv(before, after, order=order, frequencies=frequencies)
            for before, after in pairwise((features, *hidden, classes))
        )
        self._layered(layers, activation, dropout)  # eq. (1)

    @classmethod
    def example(cls) -> tuple[Self, GraphBatch]:
        return cls(features=3, classes=2, hidden=(8,)), ring_batch()

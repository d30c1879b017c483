"""Autoencoder."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Batch, Recipe, Terms
from deepcanon.models.autoencoders._autoencoder import DenseCoder
from deepcanon.nn.activations import Activation


class Autoencoder(DenseCoder):
    r"""An encoder to a low-dimensional code and a decoder, trained to reconstruct the input.

    Also known as: auto-encoder, auto-associator, bottleneck network, undercomplete autoencoder.

    .. math:: \min_{e, d} \frac1N \sum_n \lVert x_n - d(e(x_n)) \rVert^2, \qquad
              e: R^D \to R^q, \quad d: R^q \to R^D \qquad (1)

    Without hidden layers both maps are linear, and at the optimum the reconstructions are the projections of PCA: the
    columns of the decoder span the directions of largest variance of the centered data, but are neither orthogonal nor
    in order, since :math:`d(A^{-1}(A\,e(x)))` is the same for every invertible A. The biases do the centering.

    With tied weights the decoder has the transposed weights of the encoder, with biases of its own; the gradient of a
    weight is then the sum over both of its uses.

    References:
        | Auto-association by multilayer perceptrons and singular value decomposition (Bourlard and Kamp, 1988),
          https://doi.org/10.1007/BF00332918
        | Neural networks and principal component analysis: Learning from examples without local minima (Baldi and
          Hornik, 1989), https://doi.org/10.1016/0893-6080(89)90014-2
        | Reducing the Dimensionality of Data with Neural Networks (Hinton and Salakhutdinov, 2006),
          https://doi.org/10.1126/science.1127647

    Arguments:
        features: The dimension :math:`D` of the data.
        latent: The dimension :math:`q` of the code.
        hidden: The widths of the encoder's hidden layers; the decoder has them in reverse.
        activation: The activation of the hidden layers by name.
        tied: Whether the decoder's weights are the encoder's, transposed.
    """

    recipe = Recipe(epochs=50)

    def __init__(
        self,
        features: int,
        latent: int = 8,
        hidden: tuple[int, ...] = (256,),
        activation: Activation = "relu",
        tied: bool = False,
    ) -> None:
        super().__init__(features, latent, hidden, activation, tied)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=2, hidden=(8,)), Batch(x)

    def loss(self, batch: Batch) -> Terms:
        return super().loss(batch)  # eq. (1)

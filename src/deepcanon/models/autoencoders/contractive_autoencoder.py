"""Contractive autoencoder (CAE)."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch import Tensor

from deepcanon.core import Batch, Recipe, Terms
from deepcanon.core.checks import one_of, positive
from deepcanon.models.autoencoders._autoencoder import DenseCoder

Squashing = Literal["sigmoid", "tanh"]


class ContractiveAutoencoder(DenseCoder):
    r"""An autoencoder whose code hardly changes with its input, but along the directions in which the data vary.

    .. math:: E = \frac1N \sum_n \lVert x_n - d(e(x_n)) \rVert^2
              + \lambda \, \lVert J_e(x_n) \rVert_F^2, \qquad J_e = \frac{\partial e}{\partial x} \qquad (1)

    The encoder is one layer, :math:`h = s(W x + b)`, so that its Jacobian has a closed form which costs no more than
    the code: row j is :math:`s'_j W_j`, with :math:`s' = h (1 - h)` of the sigmoid and :math:`1 - h^2` of tanh.

    .. math:: \lVert J_e(x) \rVert_F^2 = \sum_j s'(a_j)^2 \, \lVert W_j \rVert^2, \qquad a = W x + b \qquad (2)

    With tied weights the penalty cannot be evaded by a small W and a large decoder.

    References:
        | Contractive Auto-Encoders: Explicit Invariance During Feature Extraction (Rifai et al., 2011),
          https://icml.cc/2011/papers/455_icmlpaper.pdf

    Arguments:
        features: The dimension of the data.
        latent: The number of units of the code.
        strength: The weight :math:`\lambda` of the penalty.
        activation: The activation :math:`s` of the code: ``sigmoid`` or ``tanh``.
        tied: Whether the decoder's weights are the encoder's, transposed.
    """

    recipe = Recipe(epochs=50, lr=3e-3)

    def __init__(
        self,
        features: int,
        latent: int = 64,
        strength: float = 0.1,
        activation: Squashing = "sigmoid",
        tied: bool = True,
    ) -> None:
        one_of(get_args(Squashing), activation=activation)
        positive(strength=strength)
        super().__init__(features, latent, (), activation, tied)
        self.strength, self.activation = strength, activation

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
        return cls(features=4, latent=8, strength=0.01), Batch(x)

    def encode(self, x: Tensor) -> Tensor:
        a = super().encode(x)
        return a.sigmoid() if self.activation == "sigmoid" else a.tanh()

    def loss(self, batch: Batch) -> Terms:
        z = self.encode(batch.x)
        contraction = self.strength * self._squared_slopes(z).mean()
        return {"reconstruction": self.error(z, batch.x).mean(), "contraction": contraction}  # eq. (1)

    def contraction(self, x: Tensor) -> Tensor:
        """The squared Frobenius norm of the encoder's Jacobian at each example, (B,)."""
        return self._squared_slopes(self.encode(x))

    def _squared_slopes(self, z: Tensor) -> Tensor:
        slopes = z * (1 - z) if self.activation == "sigmoid" else 1 - z.square()
        weight = self.encoder[0].get_parameter("weight")
        return slopes.square() @ weight.square().sum(-1)  # eq. (2)

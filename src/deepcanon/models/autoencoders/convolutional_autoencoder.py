"""Convolutional autoencoder."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, Recipe
from deepcanon.core.checks import at_least, flat
from deepcanon.models.autoencoders._autoencoder import Coder
from deepcanon.nn.activations import Activation
from deepcanon.nn.transposed import StridedStages, Transposed


class ConvolutionalAutoencoder(Coder):
    r"""An autoencoder of strided convolutions in the encoder and transposed convolutions in the decoder.

    Also known as: CAE, convolutional auto-encoder.

    .. math:: h_0 = x, \qquad h_l = f(W_l \star h_{l-1} + b_l), \qquad e(x) = A\, h_L + c \qquad (1)

    The convolutions have a stride of 2. The decoder has the transposed convolutions in reverse, :math:`\hat h_{l-1} =
    f(W_l'^{\top} \hat h_l + b_l')`. With tied weights :math:`W_l' = W_l`, as in the paper, and the gradient of a weight
    is the sum over both of its uses. Convolutions are translation-equivariant: a digit that has moved has the same
    features elsewhere, so few weights serve many positions.

    References:
        | Stacked Convolutional Auto-Encoders for Hierarchical Feature Extraction (Masci et al., 2011),
          https://doi.org/10.1007/978-3-642-21735-7_7

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        latent: The dimension of the code.
        hidden: The channels of each stage; each halves height and width.
        activation: The activation after each stage by name.
        tied: Whether the decoder's weights are the encoder's, transposed.
    """

    recipe = Recipe(lr=3e-3, schedule="cosine", batch_size=64, epochs=50)

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        latent: int = 8,
        hidden: tuple[int, ...] = (32, 64),
        activation: Activation = "relu",
        tied: bool = False,
    ) -> None:
        super().__init__()
        at_least(1, channels=channels, height=height, width=width, latent=latent)
        self.shape = (channels, height, width)
        self.features = channels * height * width
        self.latent = latent
        stages = StridedStages(self.shape, hidden, activation, tied)
        channels, height, width = stages.inner
        units = channels * height * width
        last = nn.Linear(units, latent)
        self.encoder = nn.Sequential(*stages.down, nn.Flatten(), last)
        first = Transposed(last) if tied else nn.Linear(latent, units)
        self.decoder = nn.Sequential(first, nn.Unflatten(-1, stages.inner), *stages.up)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randn(32, 1, 5, 6, generator=torch.Generator().manual_seed(0))
        return cls(channels=1, height=5, width=6, latent=2, hidden=(8, 16)), Batch(x)

    def encode(self, x: Tensor) -> Tensor:
        code: Tensor = self.encoder(flat(x, self.features).reshape(-1, *self.shape))  # eq. (1)
        return code

    def decode(self, z: Tensor) -> Tensor:
        x: Tensor = self.decoder(z.reshape(-1, self.latent))
        return x.reshape(*z.shape[:-1], self.features)

    def filters(self) -> Tensor:
        """The filters of the first stage, (count, channels, 3, 3)."""
        first = next(layer for layer in self.modules() if isinstance(layer, nn.Conv2d))
        return first.weight.detach()

"""Deep convolutional GAN (DCGAN)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, Self, cast, get_args

import torch
from torch import Tensor, nn

from deepcanon.core import Batch, DataError, Recipe, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.models.adversarial._game import SLOPE, GameName, LogisticGame
from deepcanon.nn.rescale import Rescale
from deepcanon.nn.spectral import iterate_spectral_norms, spectral_norm
from deepcanon.nn.transposed import output_padding

Normalization = Literal["batch", "spectral"]
KERNEL, STRIDE, PADDING = 4, 2, 1
STD = 0.02
"""The standard deviation of the initial weights."""


class DCGAN(LogisticGame[Batch]):
    r"""A GAN of images: a generator of transposed convolutions against a discriminator of strided convolutions.

    .. math:: \min_G \max_D \; E_x \log D(x) + E_z \log(1 - D(G(z))) \qquad (1)

    .. math:: -E_z \log D(G(z)) \qquad (2)

    The ``minimax`` generator minimizes the value of the game (1), the ``non_saturating`` one minimizes (2). No network
    pools: convolutions of 4x4 pixels with stride 2 halve the sides of the images, transposed ones double them. Batch
    normalization follows each of them but the first and the last, then ReLU in the generator, leaky ReLU in the
    discriminator. The generator ends in tanh, from -1 to 1, where the smallest and the largest value of the training
    data are. With ``spectral`` normalization the weights of the discriminator are divided by their largest singular
    values instead, which bounds its slope.

    References:
        | Unsupervised Representation Learning with Deep Convolutional Generative Adversarial Networks (Radford et al.,
          2015), https://arxiv.org/abs/1511.06434
        | Spectral Normalization for Generative Adversarial Networks (Miyato et al., 2018),
          https://arxiv.org/abs/1802.05957

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        latent: The dimension of the noise :math:`z`.
        hidden: The channels of the discriminator's convolutions, each of which halves the sides; those of the generator
            in the reverse order.
        game: The loss of the generator: ``non_saturating`` or ``minimax``.
        normalization: How the discriminator is normalized: ``batch`` or ``spectral``.
        critic_steps: The number of the discriminator's steps for each of the generator's.
    """

    recipe = Recipe(optimizer="adam:betas=0.5/0.999", lr=1e-3, schedule="cosine", batch_size=64, epochs=60)

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        latent: int = 32,
        hidden: tuple[int, ...] = (32, 64),
        game: GameName = "non_saturating",
        normalization: Normalization = "batch",
        critic_steps: int = 1,
    ) -> None:
        at_least(1, channels=channels, height=height, width=width, latent=latent)
        one_of(get_args(Normalization), normalization=normalization)
        if not hidden or min(height, width) < 2 ** len(hidden):
            raise UsageError(
                f"each of the {len(hidden)} stages of hidden halves images of {height}x{width} pixels; give from 1 to "
                f"{int(math.log2(min(height, width)))}"
            )
        shape = (channels, height, width)
        networks = _networks(shape, latent, hidden, normalization)
        super().__init__(math.prod(shape), latent, critic_steps, *networks, game)  # eqs. (1) and (2)
        self.shape = shape
        self.generator[-1], self.discriminator[0] = Rescale(1), Rescale(1)  # one shift for all pixels

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.rand(32, 1, 4, 4, generator=torch.Generator().manual_seed(0))
        return cls(channels=1, height=4, width=4, latent=2, hidden=(4,), normalization="spectral"), Batch(x)

    def prepare(self, data: Iterable[Batch]) -> None:
        """Take the smallest and the largest value of the data, which are -1 and 1 to both networks."""
        ranges = torch.stack([torch.stack([batch.x.min(), batch.x.max()]) for batch in data])
        low, high = ranges[:, 0].min(), ranges[:, 1].max()
        if high > low:
            cast(Rescale, self.generator[-1]).set((high - low) / 2, (high + low) / 2)
            cast(Rescale, self.discriminator[0]).set(2 / (high - low), -(high + low) / (high - low))

    def constrain(self) -> None:
        iterate_spectral_norms(self.discriminator)

    def _examples(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or x[0].numel() != self.features:
            raise DataError(f"the model takes images of shape {self.shape}, got the shape {tuple(x.shape)}")
        return x.reshape(-1, *self.shape).to(memory_format=torch.channels_last)


class Maps(nn.Unflatten):
    """Vectors as feature maps in the channels-last memory format, in which transposed convolutions are fastest."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(1, shape)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).to(memory_format=torch.channels_last)


class Vectors(nn.Flatten):
    """Feature maps as vectors; their gradients are stored as the maps are, or the layers before would be slow."""

    def forward(self, input: Tensor) -> Tensor:
        if input.requires_grad:
            input.register_hook(lambda gradient: gradient.contiguous(memory_format=torch.channels_last))
        return super().forward(input)


def _networks(
    shape: tuple[int, int, int], latent: int, hidden: tuple[int, ...], normalization: Normalization
) -> tuple[nn.Sequential, nn.Sequential]:
    """The generator, from (B, latent) to images, and the discriminator, from images to (B, 1)."""
    channels, *sides = shape
    down: list[nn.Module] = []
    up: list[nn.Module] = [nn.Tanh()]
    for number, outputs in enumerate(hidden):
        at_least(1, hidden=outputs)
        # batch normalization subtracts any bias again
        conv = nn.Conv2d(channels, outputs, KERNEL, STRIDE, PADDING, bias=number == 0 or normalization == "spectral")
        extra = output_padding(conv, (sides[0], sides[1]))
        back = nn.ConvTranspose2d(outputs, channels, KERNEL, STRIDE, PADDING, extra, bias=number == 0)
        batch_norm = [nn.BatchNorm2d(outputs)] if number and normalization == "batch" else []
        down += [conv, *batch_norm, nn.LeakyReLU(SLOPE, inplace=True)]
        up = [nn.BatchNorm2d(outputs), nn.ReLU(inplace=True), back, *up]
        channels, sides = outputs, [side // 2 for side in sides]
    inner = (channels, *sides)
    up = [nn.Linear(latent, math.prod(inner), bias=False), Maps(inner), *up]
    down += [Vectors(), nn.Linear(math.prod(inner), 1)]
    for layer in (*down, *up):
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear) and normalization == "batch":
            nn.init.normal_(layer.weight, std=STD)
    if normalization == "spectral":
        down = [spectral_norm(layer) if hasattr(layer, "weight") else layer for layer in down]
    return nn.Sequential(*up), nn.Sequential(*down)

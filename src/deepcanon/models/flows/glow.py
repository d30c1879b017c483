"""Glow."""

from __future__ import annotations

from typing import Self

import torch
from torch import Generator, Tensor

from deepcanon.core import Batch, DataError, Recipe
from deepcanon.models.flows._flow import TransformFlow
from deepcanon.models.flows._multi_scale import multi_scale

TEMPERATURES = (0.5, 0.75, 1.0)
"""The standard deviations of the noise in the gallery."""


class Glow(TransformFlow[Batch]):
    r"""A multi-scale normalizing flow of images with invertible 1x1 convolutions.

    Also known as: generative flow.

    One step of the flow is ActNorm, an invertible 1x1 convolution and an affine coupling, at every position i:

    .. math:: u_i = e^{a} \odot (x_i + b), \qquad v_i = W u_i, \qquad
        z = \bigl(v_a,\; v_b \odot e^{s(v_a)} + t(v_a)\bigr) \qquad (1)

    .. math:: \log \left| \det \frac{dz}{dx} \right| = H W \sum_c a_c + H W \log |\det W| + \sum s(v_a) \qquad (2)

    At each scale the image is squeezed once, every 2x2 pixels into four times the channels; ``depth`` steps follow, and
    half of the channels is split off, with a Gaussian prior whose mean and variance a network computes from the other
    half, which goes on to the next scale. The log-determinants add up. Of images of L gray levels with uniform noise,
    scaled to (0, 1), the negative log-likelihood is also given in bits per dimension, :math:`D = C H W`:

    .. math:: -\frac{\log p(x)}{D \log 2} + \log_2 L \qquad (3)

    References:
        | Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018),
          https://arxiv.org/abs/1807.03039
        | A note on the evaluation of generative models (Theis et al., 2016; bits per dimension),
          https://arxiv.org/abs/1511.01844

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        levels: The gray levels L of the images before they were dequantized; if known, metrics have bits per dimension.
        scales: The number of scales; height and width must be divisible by 2 so many times.
        depth: The number of steps at each scale.
        hidden: The channels of the two hidden layers in the networks.
    """

    recipe = Recipe(lr=2e-3, schedule="cosine:warmup=50", batch_size=64, epochs=30, clip="norm:50")

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        levels: int | None = None,
        scales: int = 2,
        depth: int = 6,
        hidden: int = 64,
    ) -> None:
        super().__init__(channels * height * width, levels)  # eq. (3)
        self.shape = (channels, height, width)
        self.flow = multi_scale(self.shape, scales, depth, hidden)  # eqs. (1) and (2)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.rand(16, 1, 4, 4, generator=torch.Generator().manual_seed(0)).cumsum(-1)
        return cls(channels=1, height=4, width=4, levels=4, depth=2, hidden=4), Batch(x)

    @torch.no_grad()
    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Samples of the same noise at several temperatures, the factors of its standard deviation."""
        z = self._noise(len(x), generator)
        return {f"temperature {factor:g}": self.to_data(factor * z) for factor in TEMPERATURES}

    def _inputs(self, x: Tensor) -> Tensor:
        if x.shape[1:] != self.shape:
            raise DataError(f"the model takes images of the shape {self.shape}, got {tuple(x.shape[1:])}")
        return x

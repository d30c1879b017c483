"""Gated PixelCNN."""

from __future__ import annotations

from typing import Self

import torch

from deepcanon.core import Batch, Recipe
from deepcanon.models.autoregressive._pixels import AutoregressiveImages
from deepcanon.nn.pixel_net import GatedPixelNet


class GatedPixelCNN(AutoregressiveImages[Batch]):
    r"""A PixelCNN of two stacks of gated convolutions, which together see all pixels before each pixel.

    .. math:: p(x) = \prod_{i, j, c} p(x_{ijc} \mid \text{rows above, pixels to the left, channels before}) \qquad (1)

    .. math:: g(a, b) = \tanh(a) \odot \sigma(b), \qquad v \leftarrow g(A * v), \qquad
              h \leftarrow h + R * g(L * h + V * (A * v)) \qquad (2)

    Two stacks of gated convolutions go over the image. The vertical one, v, sees all rows above a pixel, the horizontal
    one, h, the pixels to the left as well; together they leave no blind spot, as a PixelCNN of one stack does. One pass
    gives the probabilities of all pixels, each a softmax over the gray levels. Samples are drawn pixel by pixel: the
    vertical stack goes on by a row at a time, the horizontal one by a pixel.

    References:
        | Conditional Image Generation with PixelCNN Decoders (van den Oord et al., 2016),
          https://arxiv.org/abs/1606.05328

    Arguments:
        channels: The number of channels of an image.
        height: The height of an image.
        width: The width of an image.
        levels: The number of gray levels, which are whole numbers from 0: 2 for zeros and ones.
        maps: The number of feature maps in each layer, a multiple of ``channels``.
        layers: The number of gated layers.
        reach: How many pixels a layer looks up, to the left, and above to both sides.
        dilations: How far apart these pixels are, layer by layer; after the last one they begin anew.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine", batch_size=64, epochs=20)

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        levels: int,
        maps: int = 32,
        layers: int = 4,
        reach: int = 2,
        dilations: tuple[int, ...] = (1,),
    ) -> None:
        super().__init__(channels, height, width, levels)
        self.net = GatedPixelNet(channels, levels, maps, layers, reach, dilations)  # eqs. (1) and (2)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randint(0, 3, (32, 1, 2, 3), generator=torch.Generator().manual_seed(0)).float()
        return cls(channels=1, height=2, width=3, levels=3, maps=6, layers=2, reach=1), Batch(x)

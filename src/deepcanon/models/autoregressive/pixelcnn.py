"""PixelCNN."""

from __future__ import annotations

from functools import partial
from itertools import cycle, islice
from typing import Self

import torch

from deepcanon.core import Batch, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.autoregressive._pixels import AutoregressiveImages
from deepcanon.nn.pixel_net import PixelNet, ResidualConv


class PixelCNN(AutoregressiveImages[Batch]):
    r"""An autoregressive model of images in gray levels: masked convolutions give every pixel given those before it.

    Also known as: pixel convolutional neural network.

    .. math:: p(x) = \prod_{i, j, c} p(x_{ijc} \mid \text{rows above, pixels to the left, channels before}) \qquad (1)

    .. math:: h \leftarrow h + U * \mathrm{relu}(C * \mathrm{relu}(D * \mathrm{relu}(h))) \qquad (2)

    A masked convolution of 7x7 pixels is followed by residual blocks, in which a masked convolution C sees 3x3 pixels
    of half as many maps; with ``dilations`` these lie farther apart, and a pixel sees more of the image at the same
    cost. One pass gives the probabilities of all pixels, each a softmax over the gray levels. A stack of masked
    convolutions has a blind spot: however deep, it never sees some of the pixels above to the right, which a
    ``gated_pixelcnn`` does. Samples are drawn pixel by pixel, of which each layer computes only that pixel.

    References:
        | Pixel Recurrent Neural Networks (van den Oord et al., 2016), https://arxiv.org/abs/1601.06759

    Arguments:
        channels: The number of channels of an image.
        height: The height of an image.
        width: The width of an image.
        levels: The number of gray levels, which are whole numbers from 0: 2 for zeros and ones.
        maps: The number of feature maps inside a block, a multiple of ``channels``; between blocks there are twice as
            many.
        layers: The number of residual blocks.
        dilations: How far apart the 3x3 pixels are, block by block; after the last one they begin anew.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine", batch_size=64, epochs=20)

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        levels: int,
        maps: int = 24,
        layers: int = 5,
        dilations: tuple[int, ...] = (1,),
    ) -> None:
        super().__init__(channels, height, width, levels)
        at_least(0, layers=layers)
        at_least(1, dilations=len(dilations))
        blocks = [partial(ResidualConv, dilation=dilation) for dilation in islice(cycle(dilations), layers)]
        self.net = PixelNet(channels, levels, maps, blocks)  # eqs. (1) and (2)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randint(0, 3, (32, 1, 2, 3), generator=torch.Generator().manual_seed(0)).float()
        return cls(channels=1, height=2, width=3, levels=3, maps=4, layers=1), Batch(x)

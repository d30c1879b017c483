"""Pixel recurrent neural network (PixelRNN)."""

from __future__ import annotations

from functools import partial
from typing import Literal, Self, get_args

import torch

from deepcanon.core import Batch, Recipe
from deepcanon.core.checks import at_least, one_of
from deepcanon.models.autoregressive._pixels import AutoregressiveImages
from deepcanon.nn.pixel_lstm import DiagonalBiLSTM, RecurrentBlock, RowLSTM
from deepcanon.nn.pixel_net import PixelNet

Direction = Literal["diagonal", "row"]


class PixelRNN(AutoregressiveImages[Batch]):
    r"""An autoregressive model of images in gray levels: LSTMs over the pixels before each pixel give its levels.

    Also known as: Row LSTM, Diagonal BiLSTM.

    .. math:: p(x) = \prod_{i, j, c} p(x_{ijc} \mid \text{rows above, pixels to the left, channels before}) \qquad (1)

    .. math:: (o, f, i, g) = I * x + S * h_{\text{before}}, \qquad
              c = \sigma(f) \odot c_{\text{before}} + \sigma(i) \odot \tanh(g), \qquad
              h = \sigma(o) \odot \tanh(c) \qquad (2)

    A masked convolution of 7x7 pixels is followed by recurrent layers, each with a residual connection. In a ``row``
    LSTM the states of a row come from the three pixels of the row above, so that a pixel sees a triangle of those
    before it. In a ``diagonal`` one they come from the left and from above, along the diagonals, and in a second LSTM
    from the right and from above: together they see all pixels before each pixel, but for the last one of the row above
    where that is more than three columns away. Samples are drawn pixel by pixel, of which each layer computes only that
    pixel.

    References:
        | Pixel Recurrent Neural Networks (van den Oord et al., 2016), https://arxiv.org/abs/1601.06759

    Arguments:
        channels: The number of channels of an image.
        height: The height of an image.
        width: The width of an image.
        levels: The number of gray levels, which are whole numbers from 0: 2 for zeros and ones.
        direction: The recurrence: ``diagonal`` (Diagonal BiLSTM) or ``row`` (Row LSTM).
        maps: The number of hidden maps of an LSTM, a multiple of ``channels``; between layers there are twice as many.
        layers: The number of recurrent layers.
    """

    recipe = Recipe(lr=5e-3, schedule="cosine", batch_size=64, epochs=20, clip="norm:1.0")

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        levels: int,
        direction: Direction = "diagonal",
        maps: int = 24,
        layers: int = 2,
    ) -> None:
        super().__init__(channels, height, width, levels)
        at_least(1, layers=layers)
        one_of(get_args(Direction), direction=direction)
        layer = partial(RecurrentBlock, layer=RowLSTM if direction == "row" else DiagonalBiLSTM)
        self.net = PixelNet(channels, levels, maps, [layer] * layers)  # eqs. (1) and (2)

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        x = torch.randint(0, 3, (32, 1, 2, 3), generator=torch.Generator().manual_seed(0)).float()
        return cls(channels=1, height=2, width=3, levels=3, maps=4, layers=1), Batch(x)

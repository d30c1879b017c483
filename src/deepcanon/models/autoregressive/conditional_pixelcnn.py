"""Class-conditional gated PixelCNN."""

from __future__ import annotations

from typing import Self

import torch
from torch import Generator, Tensor

from deepcanon.core import ClassConditional, Labeled, Recipe
from deepcanon.core.checks import at_least
from deepcanon.models.autoregressive._pixels import AutoregressiveImages
from deepcanon.nn.pixel_net import GatedPixelNet

SHOWN = 10
"""How many classes the gallery shows."""


class ConditionalPixelCNN(ClassConditional, AutoregressiveImages[Labeled]):
    r"""A gated PixelCNN of the images of each class, whose gates have biases of their own for each class.

    Also known as: conditional PixelCNN.

    .. math:: p(x \mid y) = \prod_{i, j, c}
              p(x_{ijc} \mid \text{rows above, pixels to the left, channels before}, y) \qquad (1)

    .. math:: g(a, b) = \tanh(a) \odot \sigma(b), \qquad v \leftarrow g(A * v + c_y), \qquad
              h \leftarrow h + R * g(L * h + V * (A * v) + c_y) \qquad (2)

    The class y moves the gates of both stacks at every pixel alike: it says what is in the image, not where. All
    methods are those of a gated PixelCNN, conditioned on a class by ``given`` or ``context``.

    References:
        | Conditional Image Generation with PixelCNN Decoders (van den Oord et al., 2016),
          https://arxiv.org/abs/1606.05328

    Arguments:
        channels: The number of channels of an image.
        height: The height of an image.
        width: The width of an image.
        levels: The number of gray levels, which are whole numbers from 0: 2 for zeros and ones.
        classes: The number of classes.
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
        classes: int,
        maps: int = 32,
        layers: int = 4,
        reach: int = 2,
        dilations: tuple[int, ...] = (1,),
    ) -> None:
        super().__init__(channels, height, width, levels)
        at_least(1, classes=classes)
        self.classes = classes
        self.net = GatedPixelNet(channels, levels, maps, layers, reach, dilations, classes)  # eqs. (1) and (2)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randint(0, 3, (32, 1, 2, 3), generator=torch.Generator().manual_seed(0)).float()
        model = cls(channels=1, height=2, width=3, levels=3, classes=4, maps=6, layers=2, reach=1)
        return model, Labeled(x, torch.arange(32) % 4)

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Samples of each class, as many as there are examples in x."""
        classes = torch.arange(min(self.classes, SHOWN)).repeat_interleave(len(x))
        drawn = self.sample(len(classes), context=classes, generator=generator).reshape(-1, *x.shape)
        return {f"class {label}": row for label, row in enumerate(drawn)}

"""LeNet-5."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from deepcanon.core import Labeled, Recipe
from deepcanon.models.convolutional._convolutional import ImagePredictor
from deepcanon.nn.activations import Activation, activation_layer

SIDE, BORDER = 28, 2
"""The side of the images of MNIST, and the border around them, which makes them 32 pixels wide, as in the paper."""

MAPS, UNITS = (6, 16), (120, 84)
"""The feature maps of the two convolutions, and the units of the two hidden layers after them."""


class LeNet(ImagePredictor):
    r"""Two convolutions of 5x5 pixels, each followed by average pooling, and three linear layers.

    Also known as: LeNet, LeNet5.

    .. math:: h_1 = \mathrm{pool}(\phi(W_1 \star x + b_1)), \qquad h_2 = \mathrm{pool}(\phi(W_2 \star h_1 + b_2))
              \qquad (1)

    .. math:: f(x) = A_3\, \phi(A_2\, \phi(A_1 h_2 + a_1) + a_2) + a_3 \qquad (2)

    Images of 32x32 pixels are taken as they are. Those of any other size are resized to 28x28, the size of MNIST, and
    get a border of two zeros. Of one channel and ten classes it has 61,706 parameters. As everywhere today, it differs
    from the paper's network, of 60,000: every map of the second convolution sees all six of the first, the pooling has
    no weights of its own, and the last layer is linear instead of distances to drawn patterns.

    References:
        | Gradient-based learning applied to document recognition (LeCun et al., 1998), https://doi.org/10.1109/5.726791

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        activation: The activation :math:`\phi`; the paper has a scaled tanh.
        smoothing: The label smoothing :math:`\epsilon`: the share of each label that is spread over all classes in
            training; real targets stay as they are.
        head: The distribution of real targets by name: "gaussian", "heteroscedastic", "bernoulli" or one of
            torch.distributions; without one the loss is the squared error.
    """

    recipe = Recipe(
        optimizer="sgd:momentum=0.9,nesterov=true,weight_decay=5e-4",
        lr=0.05,
        schedule="one_cycle",
        batch_size=64,
        epochs=20,
    )

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        classes: int | None = None,
        targets: int | None = None,
        activation: Activation = "tanh",
        smoothing: float = 0.0,
        head: str | None = None,
    ) -> None:
        super().__init__(channels, height, width, classes, targets, smoothing, head)
        first, second = MAPS
        self.features = nn.Sequential(
            nn.Conv2d(channels, first, 5), activation_layer(activation), nn.AvgPool2d(2),
            nn.Conv2d(first, second, 5), activation_layer(activation), nn.AvgPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Sequential(
            nn.Linear(second * 5 * 5, UNITS[0]), activation_layer(activation),
            nn.Linear(UNITS[0], UNITS[1]), activation_layer(activation),
            nn.Linear(UNITS[1], self.outputs),
        )  # fmt: skip

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(24, 1, 6, 6, generator=torch.Generator().manual_seed(0))
        halves = torch.stack([x[..., :3].mean((1, 2, 3)), x[..., 3:].mean((1, 2, 3))], -1)
        return cls(channels=1, height=6, width=6, classes=2), Labeled(x, halves.argmax(-1))

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes), the means of the targets, (B, targets), or the inputs of the head."""
        maps = self.features(self.framed(x))  # (B, 16, 5, 5), eq. (1)
        outputs: Tensor = self.classifier(maps.flatten(1))  # eq. (2)
        return outputs

    def framed(self, x: Tensor) -> Tensor:
        """The images in 32x32 pixels, (B, channels, 32, 32)."""
        x = self._images(x)
        whole = SIDE + 2 * BORDER
        if self.shape[1:] == (whole, whole):
            return x
        if self.shape[1:] != (SIDE, SIDE):
            x = interpolate(x, (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)
        return pad(x, (BORDER,) * 4)

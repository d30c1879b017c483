"""Densely connected convolutional network (DenseNet)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Labeled, Recipe, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.convolutional._convolutional import ImagePredictor, Stem, is_small
from deepcanon.nn.batch_norm import BatchNorm
from deepcanon.nn.pointwise import Pointwise

BOTTLENECK = 4
"""The width of the bottleneck: the 1x1 convolution has so many times as many channels as the layer adds."""


class DenseLayer(nn.Module):
    """A layer that adds ``growth`` channels to its input: BN, ReLU, 1x1 convolution, BN, ReLU, 3x3 convolution."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm1 = BatchNorm(inputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = Pointwise(inputs, BOTTLENECK * growth)
        self.norm2 = BatchNorm(BOTTLENECK * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(BOTTLENECK * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        new = self.conv1(self.relu1(self.norm1(x)))
        new = self.conv2(self.relu2(self.norm2(new)))
        return torch.cat([x, new], dim=1)  # eq. (1)


class DenseNet(ImagePredictor):
    r"""A convolutional network in which each layer gets the feature maps of all layers before it.

    Also known as: DenseNet-BC, densely connected network.

    .. math:: h_l = F_l([h_0, h_1, \dots, h_{l-1}]) \qquad (1)

    .. math:: f(x) = A\, \mathrm{mean}(\max(0, \mathrm{BN}([h_0, \dots, h_L]))) + b \qquad (2)

    Each :math:`F_l` is a 1x1 convolution (the bottleneck) and a 3x3 convolution, both after batch normalization and
    ReLU; the mean is global average pooling. Between blocks a transition halves the channels and the image.
    ``blocks=(6, 12, 24, 16), growth=32`` is DenseNet-121, ``(6, 12, 32, 32)`` DenseNet-169, ``(6, 12, 48, 32)``
    DenseNet-201, and ``(6, 12, 36, 24), growth=48`` DenseNet-161, with the names and shapes of torchvision's weights;
    the default is the paper's 40 layers for small images.

    References:
        | Densely connected convolutional networks (Huang et al., 2017), https://arxiv.org/abs/1608.06993

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        blocks: The number of layers in each block.
        growth: The growth rate: the channels that each layer adds; the first block gets twice as many.
        stem: The first layers: "large" is a 7x7 convolution and a pooling, which together downsample four times,
            "small" a 3x3 convolution that keeps the size, "auto" the one that suits the size of the image.
        smoothing: The label smoothing :math:`\epsilon`: the share of each label that is spread over all classes in
            training; real targets stay as they are.
        head: The distribution of real targets by name: "gaussian", "heteroscedastic", "bernoulli" or one of
            torch.distributions; without one the loss is the squared error.
    """

    recipe = Recipe(
        optimizer="sgd:momentum=0.9,nesterov=true,weight_decay=5e-4",
        lr=0.1,
        schedule="one_cycle",
        batch_size=64,
        epochs=8,
    )

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        classes: int | None = None,
        targets: int | None = None,
        blocks: tuple[int, ...] = (6, 6, 6),
        growth: int = 12,
        stem: Stem = "auto",
        smoothing: float = 0.1,
        head: str | None = None,
    ) -> None:
        super().__init__(channels, height, width, classes, targets, smoothing, head)
        at_least(1, growth=growth)
        if not blocks:
            raise UsageError("a DenseNet needs at least one block: blocks=(6,) or more (got none)")
        at_least(1, blocks=min(blocks))
        inputs = 2 * growth
        parts: OrderedDict[str, nn.Module] = OrderedDict()
        if is_small(stem, height, width):
            parts["conv0"] = nn.Conv2d(channels, inputs, 3, padding=1, bias=False)
            sides = (height, width)
        else:
            parts["conv0"] = nn.Conv2d(channels, inputs, 7, stride=2, padding=3, bias=False)
            sides = (-(-height // 4), -(-width // 4))
        parts["norm0"] = BatchNorm(inputs)
        parts["relu0"] = nn.ReLU(inplace=True)
        if sides != (height, width):
            parts["pool0"] = nn.MaxPool2d(3, stride=2, padding=1)
        for number, count in enumerate(blocks, start=1):
            grown = {f"denselayer{i + 1}": DenseLayer(inputs + i * growth, growth) for i in range(count)}
            parts[f"denseblock{number}"] = nn.Sequential(OrderedDict(grown))
            inputs += count * growth
            if number < len(blocks):
                halving = (min(2, sides[0]), min(2, sides[1]))  # a side of one pixel is not halved further
                parts[f"transition{number}"] = _transition(inputs, halving)
                inputs, sides = inputs // 2, (sides[0] // halving[0], sides[1] // halving[1])
        parts["norm5"] = BatchNorm(inputs)
        parts["relu5"] = nn.ReLU(inplace=True)
        self.features = nn.Sequential(parts)
        self.classifier = nn.Linear(inputs, self.outputs)
        nn.init.zeros_(self.classifier.bias)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(12, 1, 6, 6, generator=torch.Generator().manual_seed(0))
        halves = torch.stack([x[..., :3].mean((1, 2, 3)), x[..., 3:].mean((1, 2, 3))], -1)
        return cls(1, 6, 6, classes=2, blocks=(2, 1), growth=2), Labeled(x, halves.argmax(-1))

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes), the means of the targets, (B, targets), or the inputs of the head."""
        outputs: Tensor = self.classifier(self.features(self._images(x)).mean((-2, -1)))  # eq. (2)
        return outputs


def _transition(inputs: int, halving: tuple[int, int]) -> nn.Sequential:
    parts = {
        "norm": BatchNorm(inputs),
        "relu": nn.ReLU(inplace=True),
        "conv": Pointwise(inputs, inputs // 2),
        "pool": nn.AvgPool2d(halving),
    }
    return nn.Sequential(OrderedDict(parts))

"""Residual network (ResNet)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Labeled, Recipe, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.convolutional._convolutional import ImagePredictor, Stem, is_small
from deepcanon.nn.batch_norm import BatchNorm
from deepcanon.nn.pointwise import Pointwise


class Block(nn.Module):
    """A residual block: the skip connection, with a 1x1 convolution where the block changes size."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Sequential | None = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(Pointwise(inputs, outputs, stride), BatchNorm(outputs))

    def skip(self, x: Tensor) -> Tensor:
        if self.downsample is None:
            return x
        shortcut: Tensor = self.downsample(x)
        return shortcut


class Basic(Block):
    """The basic block: two 3x3 convolutions."""

    expansion = 1

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__(inputs, channels, stride)
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, padding=1, bias=False)
        self.bn1 = BatchNorm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = BatchNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        out: Tensor = self.relu(y + self.skip(x))  # eq. (1)
        return out


class Bottleneck(Block):
    """The bottleneck block: a 3x3 convolution between two 1x1 convolutions, the last four times as wide.

    The stride is that of the convolution in the middle, as in most published weights, not of the first one as in the
    paper, which throws three quarters of its input away.
    """

    expansion = 4

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__(inputs, self.expansion * channels, stride)
        self.conv1 = Pointwise(inputs, channels)
        self.bn1 = BatchNorm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, bias=False)
        self.bn2 = BatchNorm(channels)
        self.conv3 = Pointwise(channels, self.expansion * channels)
        self.bn3 = BatchNorm(self.expansion * channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        out: Tensor = self.relu(y + self.skip(x))  # eq. (1)
        return out


PLANS: dict[int, tuple[type[Basic] | type[Bottleneck], tuple[int, ...]]] = {
    18: (Basic, (2, 2, 2, 2)),
    34: (Basic, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
}
"""By the number of layers: the kind of block, and the number of blocks in each stage."""


class ResNet(ImagePredictor):
    r"""A deep convolutional network of residual blocks, with skip connections that let gradients pass unhindered.

    Also known as: deep residual network, ResNet-18, ResNet-34, ResNet-50.

    .. math:: h_{l+1} = \max(0, h_l + F_l(h_l)) \qquad (1)

    .. math:: f(x) = A\, \mathrm{mean}(h_L) + b \qquad (2)

    Each :math:`F_l` is two or three convolutions with batch normalization; where a stage halves the image and doubles
    the channels, :math:`h_l` passes through a 1x1 convolution; the mean is global average pooling. Names and shapes of
    the weights are those of torchvision (and of timm), so that its files load by ``load_state_dict``; weights of
    Hugging Face are renamed by :func:`deepcanon.interop.resnet_names.from_hugging_face`. The last normalization of each
    block is initialized to zero, so that every block starts as the identity.

    References:
        | Deep residual learning for image recognition (He et al., 2016), https://arxiv.org/abs/1512.03385
        | Accurate, large minibatch SGD: training ImageNet in 1 hour (Goyal et al., 2017; the initialization to zero),
          https://arxiv.org/abs/1706.02677

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        layers: The number of layers: 18, 34 or 50.
        stem: The first layers: "large" is a 7x7 convolution and a pooling, which together downsample four times,
            "small" a 3x3 convolution that keeps the size, "auto" the one that suits the size of the image.
        base: The channels of the first stage; each further stage has twice as many.
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
        epochs=8,
    )

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        classes: int | None = None,
        targets: int | None = None,
        layers: int = 18,
        stem: Stem = "auto",
        base: int = 64,
        smoothing: float = 0.1,
        head: str | None = None,
    ) -> None:
        super().__init__(channels, height, width, classes, targets, smoothing, head)
        if layers not in PLANS:
            raise UsageError(f"a ResNet has {', '.join(map(str, PLANS))} layers (got {layers})")
        at_least(1, base=base)
        small = is_small(stem, height, width)
        self.conv1 = nn.Conv2d(channels, base, 3, padding=1, bias=False) if small else _large_stem(channels, base)
        self.bn1 = BatchNorm(base)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, stride=2, padding=1)
        kind, counts = PLANS[layers]
        stages, inputs = [], base
        for number, count in enumerate(counts):
            outputs = base * 2**number
            strides = [1 if number == 0 else 2, *[1] * (count - 1)]
            blocks = []
            for stride in strides:
                blocks.append(kind(inputs, outputs, stride))
                inputs = kind.expansion * outputs
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(inputs, self.outputs)
        self._initialize()

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(12, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        halves = torch.stack([x[..., :4].mean((1, 2, 3)), x[..., 4:].mean((1, 2, 3))], -1)
        return cls(channels=1, height=8, width=8, classes=2, base=2), Labeled(x, halves.argmax(-1))

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes), the means of the targets, (B, targets), or the inputs of the head."""
        h = self.maxpool(self.relu(self.bn1(self.conv1(self._images(x)))))  # (B, base, height, width), or a quarter
        h = self.layer4(self.layer3(self.layer2(self.layer1(h))))  # (B, 8 * base * expansion, an eighth of each side)
        outputs: Tensor = self.fc(h.mean((-2, -1)))  # eq. (2)
        return outputs

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, Basic):
                nn.init.zeros_(module.bn2.weight)
            elif isinstance(module, Bottleneck):
                nn.init.zeros_(module.bn3.weight)


def _large_stem(channels: int, base: int) -> nn.Conv2d:
    return nn.Conv2d(channels, base, 7, stride=2, padding=3, bias=False)

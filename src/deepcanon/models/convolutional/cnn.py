"""Convolutional neural network (CNN)."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

from deepcanon.core import Labeled, Recipe, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.convolutional._convolutional import ImagePredictor
from deepcanon.nn.batch_norm import BatchNorm

FIRST_KERNEL, KERNEL = 5, 3
"""The sizes of the kernels; the first filters are few and have the larger receptive field, since strokes are wide."""

SUMMARY = 4
"""The most positions in height and width that the linear layer gets: larger feature maps are average-pooled."""


class CNN(ImagePredictor):
    r"""A stack of convolution, max pooling, batch normalization and ReLU, followed by a linear layer.

    Also known as: ConvNet, convolutional network.

    .. math:: h_0 = x, \qquad h_l = \max(0, \mathrm{BN}(\mathrm{pool}(W_l \star h_{l-1}))), \qquad
        f(x) = A\, h_L + b \qquad (1)

    Here :math:`\star` is the cross-correlation, as everywhere in deep learning, and the pooling takes the maximum of
    2x2 pixels; it stands before the normalization, which then has a quarter of the work. A side that is one pixel long
    already is not halved further, and feature maps :math:`h_L` of more than 4x4 positions are average-pooled. One epoch
    on MNIST with the settings of ``benchmarks/cnn.py`` is enough for 99 %.

    References:
        | Gradient-based learning applied to document recognition (LeCun et al., 1998), https://doi.org/10.1109/5.726791
        | Batch normalization: accelerating deep network training by reducing internal covariate shift (Ioffe and
          Szegedy, 2015), https://arxiv.org/abs/1502.03167
        | Rethinking the inception architecture for computer vision (Szegedy et al., 2016; label smoothing),
          https://arxiv.org/abs/1512.00567
        | Super-convergence: very fast training of neural networks using large learning rates (Smith and Topin, 2018;
          the one-cycle schedule), https://arxiv.org/abs/1708.07120

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        hidden: The channels of each stage.
        dropout: The probability to drop an input of the linear layer in training.
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
        epochs=20,
    )

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        classes: int | None = None,
        targets: int | None = None,
        hidden: tuple[int, ...] = (8, 32, 64),
        dropout: float = 0.0,
        smoothing: float = 0.1,
        head: str | None = None,
    ) -> None:
        super().__init__(channels, height, width, classes, targets, smoothing, head)
        if not hidden:
            raise UsageError("a CNN needs at least one stage: hidden=(8,) or more (got none)")
        at_least(1, hidden=min(hidden))
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout is the probability to drop a unit, from 0 to below 1 (got {dropout})")
        sides, inputs, kernel = (height, width), channels, FIRST_KERNEL
        stages: list[nn.Module] = []
        for outputs in hidden:
            halving = (min(2, sides[0]), min(2, sides[1]))
            stages.append(
                nn.Sequential(
                    nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),  # BN has a bias of its own
                    nn.MaxPool2d(halving),
                    BatchNorm(outputs),
                    nn.ReLU(inplace=True),
                )
            )
            sides = (sides[0] // halving[0], sides[1] // halving[1])
            inputs, kernel = outputs, KERNEL
        self.stages = nn.Sequential(*stages)
        windows = (-(-sides[0] // SUMMARY), -(-sides[1] // SUMMARY))
        positions = (-(-sides[0] // windows[0]), -(-sides[1] // windows[1]))
        self.summary = nn.AvgPool2d(windows, ceil_mode=True) if max(windows) > 1 else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(inputs * positions[0] * positions[1], self.outputs)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(24, 1, 6, 6, generator=torch.Generator().manual_seed(0))
        halves = torch.stack([x[..., :3].mean((1, 2, 3)), x[..., 3:].mean((1, 2, 3))], -1)
        return cls(channels=1, height=6, width=6, classes=2, hidden=(4, 4)), Labeled(x, halves.argmax(-1))

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes), the means of the targets, (B, targets), or the inputs of the head."""
        maps = self.summary(self.stages(self._images(x)))  # (B, hidden[-1], at most 4, at most 4)
        outputs: Tensor = self.linear(self.dropout(maps.flatten(1)))  # eq. (1)
        return outputs

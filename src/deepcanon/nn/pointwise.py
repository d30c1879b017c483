"""Pointwise (1x1) convolution, also with a stride."""

from __future__ import annotations

from torch import Tensor, nn


class Pointwise(nn.Conv2d):
    """A 1x1 convolution without a bias, of every ``stride``-th pixel only.

    The pixels are chosen before the convolution. The result is that of a strided convolution, whose gradient oneDNN
    writes past the end of its memory where channels lie last and are fewer than 16
    (https://github.com/uxlfoundation/oneDNN/issues/6035).

    >>> import torch
    >>> Pointwise(3, 5, stride=2)(torch.zeros(1, 3, 7, 8)).shape
    torch.Size([1, 5, 4, 4])
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, kernel_size=1, bias=False)
        self.step = stride

    def forward(self, x: Tensor) -> Tensor:
        chosen: Tensor = super().forward(x if self.step == 1 else x[..., :: self.step, :: self.step])
        return chosen

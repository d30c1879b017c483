"""Transposed layers, which share (tie) their weights with another layer."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.core.display import Shown
from deepcanon.nn.activations import Activation, activation_layer
from deepcanon.nn.convolution import output_size

KERNEL, STRIDE, PADDING = 3, 2, 1
"""The convolutions of strided stages."""


class Transposed(nn.Module):
    """A linear layer with the transposed weight of another one and a bias of its own: tied weights.

    The weight stays the other layer's parameter, and its gradient is the sum over both uses.

    >>> layer = nn.Linear(3, 2)
    >>> [name for name, _ in Transposed(layer).named_parameters()]
    ['bias']
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._layer = (layer,)  # in a tuple, so that the layer is not registered as a submodule
        self.bias = nn.Parameter(torch.zeros(layer.in_features))

    def forward(self, x: Tensor) -> Tensor:
        (layer,) = self._layer
        return F.linear(x, layer.weight.T, self.bias)


class TransposedConv(nn.Module):
    """A transposed convolution with the weight of another, zero-padded convolution and a bias of its own.

    The weight stays the other layer's parameter, as in :class:`Transposed`; the function :func:`output_padding` gives
    the ``output_padding`` of the size of its outputs. Seen as a convolution, its kernels are the other's, flipped.

    >>> layer = nn.Conv2d(1, 4, 3, stride=2, padding=1)
    >>> back = TransposedConv(layer, output_padding(layer, (8, 7)))
    >>> back(torch.zeros(1, 4, 4, 4)).shape, [name for name, _ in back.named_parameters()]
    (torch.Size([1, 1, 8, 7]), ['bias'])
    """

    def __init__(self, layer: nn.Conv2d, output_padding: tuple[int, int]) -> None:
        super().__init__()
        self._layer = (layer,)
        self.output_padding = output_padding
        self.bias = nn.Parameter(torch.zeros(layer.in_channels))

    def forward(self, x: Tensor) -> Tensor:
        (layer,) = self._layer
        padding = _padding(layer)
        return F.conv_transpose2d(
            x, layer.weight, self.bias, layer.stride, padding, self.output_padding, layer.groups, layer.dilation
        )


class StridedStages(Shown):
    """Convolutions that halve the sides of images stage by stage, ``down``, and transposed ones back ``up``.

    An activation follows each stage down and comes before each one up. In between, images have the shape ``inner``;
    ``tied`` stages up have the weights of those down. If they are ``normalized``, layer normalization over all maps of
    an image comes before each activation.

    >>> stages = StridedStages((1, 28, 28), (32, 64), "relu")
    >>> stages.inner, len(stages.down), len(stages.up)
    ((64, 7, 7), 4, 4)
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        hidden: tuple[int, ...],
        activation: Activation,
        tied: bool = False,
        normalized: bool = False,
    ) -> None:
        channels, height, width = shape
        self.shape = shape
        self.down: list[nn.Module] = []
        self.up: list[nn.Module] = []
        for outputs in hidden:
            at_least(1, hidden=outputs)
            stage = nn.Conv2d(channels, outputs, KERNEL, STRIDE, PADDING)
            extra = output_padding(stage, (height, width))
            back = TransposedConv(stage, extra) if tied else _untied(stage, extra)
            norms = [nn.GroupNorm(1, outputs) for _ in range(2)] if normalized else []
            self.down += [stage, *norms[:1], activation_layer(activation)]
            self.up = [*norms[1:], activation_layer(activation), back, *self.up]
            height, width = (output_size(side, KERNEL, stride=STRIDE, padding=PADDING) for side in (height, width))
            channels = outputs
        self.inner = (channels, height, width)

    def _facts(self) -> dict[str, Any]:
        return {"shape": self.shape, "inner": self.inner}


def _untied(stage: nn.Conv2d, extra: tuple[int, int]) -> nn.ConvTranspose2d:
    """The transposed convolution of a stage, with weights of its own."""
    return nn.ConvTranspose2d(stage.out_channels, stage.in_channels, KERNEL, STRIDE, PADDING, extra)


def output_padding(layer: nn.Conv2d, sides: tuple[int, int]) -> tuple[int, int]:
    """The ``output_padding`` with which a transposed convolution gives images of these sides.

    It is the number of last rows and columns that the stride of the convolution leaves out.

    >>> output_padding(nn.Conv2d(1, 4, 3, stride=2, padding=1), (8, 7))
    (1, 0)
    """
    high, wide = (
        (side + 2 * padding - dilation * (kernel - 1) - 1) % stride
        for side, padding, dilation, kernel, stride in zip(
            sides, _padding(layer), layer.dilation, layer.kernel_size, layer.stride, strict=True
        )
    )
    return high, wide


def _padding(layer: nn.Conv2d) -> tuple[int, int]:
    """The padding of a convolution, which must be one of numbers."""
    if isinstance(layer.padding, str):
        raise UsageError(f"the padding must be given in numbers, such as padding=1 (got {layer.padding!r})")
    high, wide = layer.padding
    return high, wide


def transposed(net: nn.Sequential) -> nn.Sequential:
    """The layers of ``net`` in reverse, the linear ones transposed: a decoder with tied weights.

    >>> decoder = transposed(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)))
    >>> decoder(torch.zeros(1, 2)).shape
    torch.Size([1, 4])
    """
    return nn.Sequential(*(Transposed(layer) if isinstance(layer, nn.Linear) else layer for layer in reversed(net)))

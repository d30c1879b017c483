"""Layers that go back the way of another one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import UsageError


class Transposed(nn.Module):
    """The transposed weight of another linear layer, with a bias of its own.

    The weight stays the other layer's parameter, and its gradient is the sum over both uses.

    >>> layer = nn.Linear(3, 2)
    >>> [name for name, _ in Transposed(layer).named_parameters()]
    ['bias']
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self._layer = (layer,)  # in a tuple, so that the layer does not become a part of this one too
        self.bias = nn.Parameter(torch.zeros(layer.in_features))

    def forward(self, x: Tensor) -> Tensor:
        (layer,) = self._layer
        return F.linear(x, layer.weight.T, self.bias)


class TransposedConv(nn.Module):
    """The transposed map of a convolution with zeros around its images, with a bias of its own.

    The weight stays the other layer's parameter, as in :class:`Transposed`; ``rows_left`` is :func:`rows_left` of the
    size of the images to go back to. Seen as a convolution, its kernels are the other's, flipped.

    >>> layer = nn.Conv2d(1, 4, 3, stride=2, padding=1)
    >>> back = TransposedConv(layer, rows_left(layer, (8, 7)))
    >>> back(torch.zeros(1, 4, 4, 4)).shape, [name for name, _ in back.named_parameters()]
    (torch.Size([1, 1, 8, 7]), ['bias'])
    """

    def __init__(self, layer: nn.Conv2d, rows_left: tuple[int, int]) -> None:
        super().__init__()
        self._layer = (layer,)
        self.rows_left = rows_left
        self.bias = nn.Parameter(torch.zeros(layer.in_channels))

    def forward(self, x: Tensor) -> Tensor:
        (layer,) = self._layer
        around = zeros_around(layer)
        return F.conv_transpose2d(
            x, layer.weight, self.bias, layer.stride, around, self.rows_left, layer.groups, layer.dilation
        )


def rows_left(layer: nn.Conv2d, sides: tuple[int, int]) -> tuple[int, int]:
    """How many last rows and columns of an image with these sides the stride of a convolution leaves out.

    It is the ``output_padding`` with which a transposed convolution leads back to images of this size.

    >>> rows_left(nn.Conv2d(1, 4, 3, stride=2, padding=1), (8, 7))
    (1, 0)
    """
    high, wide = (
        (side + 2 * around - apart * (kernel - 1) - 1) % step
        for side, around, apart, kernel, step in zip(
            sides, zeros_around(layer), layer.dilation, layer.kernel_size, layer.stride, strict=True
        )
    )
    return high, wide


def zeros_around(layer: nn.Conv2d) -> tuple[int, int]:
    """The padding of a convolution, which must be one of numbers."""
    if isinstance(layer.padding, str):
        raise UsageError(f"a way back is known for a padding in numbers, such as padding=1 (got {layer.padding!r})")
    high, wide = layer.padding
    return high, wide


def transposed(net: nn.Sequential) -> nn.Sequential:
    """The layers of ``net`` in reverse, the linear ones transposed: a way back from its outputs to its inputs.

    >>> back = transposed(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)))
    >>> back(torch.zeros(1, 2)).shape
    torch.Size([1, 4])
    """
    return nn.Sequential(*(Transposed(layer) if isinstance(layer, nn.Linear) else layer for layer in reversed(net)))

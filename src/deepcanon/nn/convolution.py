"""Convolutions that torch.nn lacks: flipped kernels, every padding mode, "same" padding with strides, causal ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least, one_of

Padding = int | Literal["valid", "same"]
Border = Literal["zeros", "reflect", "replicate", "circular"]
BORDERS = ("zeros", "reflect", "replicate", "circular")
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def output_size(size: int, kernel: int, *, stride: int = 1, padding: Padding = 0, dilation: int = 1) -> int:
    r"""The output size of a convolution or pooling along an axis of ``size`` positions.

    .. math:: \left\lfloor \frac{n + 2p - d (k - 1) - 1}{s} \right\rfloor + 1, \qquad
        \text{and } \left\lceil \frac{n}{s} \right\rceil \text{ with the padding "same"}

    >>> output_size(32, 5), output_size(224, 7, stride=2, padding=3), output_size(9, 3, stride=2, padding="same")
    (28, 112, 5)
    """
    at_least(1, size=size, kernel=kernel, stride=stride, dilation=dilation)
    if padding == "same":
        return -(-size // stride)
    around = 0 if padding == "valid" else 2 * padding
    positions = (size + around - dilation * (kernel - 1) - 1) // stride + 1
    if positions < 1:
        raise UsageError(
            f"a kernel of size {kernel} and dilation {dilation} does not fit into {size} positions with a padding of "
            f"{around} in all"
        )
    return positions


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: int = 1,
    padding: Padding = "valid",
    border: Border = "zeros",
    dilation: int = 1,
    groups: int = 1,
    flip: bool = False,
) -> Tensor:
    r"""The cross-correlation of signals, images or volumes with kernels; with ``flip`` the convolution.

    .. math:: (x \star w)_t = \sum_\tau x_{t + \tau}\, w_\tau, \qquad (x * w)_t = \sum_\tau x_{t - \tau}\, w_\tau

    As everywhere in deep learning nothing is flipped by default. ``x`` is (B, channels, positions ...) with one to
    three spatial axes, ``weight`` (outputs, channels / groups, kernel ...), and ``border`` is the padding mode, what
    lies beyond the ends of ``x``: zeros, its mirror image, its last value, or its other end.

    >>> x, kernel = torch.tensor([[[0.0, 1, 2, 4, 8]]]), torch.tensor([[[1.0, 0, -1]]])
    >>> convolve(x, kernel), convolve(x, kernel, flip=True)
    (tensor([[[-2., -3., -6.]]]), tensor([[[2., 3., 6.]]]))
    """
    axes = weight.ndim - 2
    if axes not in CONVOLUTIONS or x.ndim != weight.ndim:
        raise UsageError(
            "x and weight must both have one, two or three axes after the first two, "
            f"got the shapes {tuple(x.shape)} and {tuple(weight.shape)}"
        )
    one_of(BORDERS, border=border)
    if padding == "same":
        x = pad_same(x, weight.shape[2:], (stride,) * axes, (dilation,) * axes, border)
    elif padding != "valid":
        x = _padded(x, [padding] * (2 * axes), border)
    if flip:
        weight = weight.flip(tuple(range(2, weight.ndim)))
    none, strides, dilations = [0] * axes, [stride] * axes, [dilation] * axes
    return torch.convolution(x, weight, bias, strides, none, dilations, False, none, groups)


def pad_same(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], border: str = "zeros"
) -> Tensor:
    """``x`` with "same" padding: a convolution of it has one output for every ``stride`` inputs.

    Where the padding is odd, the end gets one more than the beginning.
    """
    around: list[int] = []
    sizes = x.shape[-len(kernel) :]
    for size, wide, step, spacing in reversed(list(zip(sizes, kernel, stride, dilation, strict=True))):
        positions = output_size(size, wide, stride=step, padding="same", dilation=spacing)
        missing = max(0, (positions - 1) * step + spacing * (wide - 1) + 1 - size)
        around += [missing // 2, missing - missing // 2]  # F.pad begins with the last axis
    return _padded(x, around, border)


def _padded(x: Tensor, around: list[int], border: str) -> Tensor:
    return F.pad(x, around, mode="constant" if border == "zeros" else border)


class Same(nn.Module):
    """A convolution with "same" padding and a stride, which torch refuses: one output for every ``stride`` inputs.

    The padding mode is the convolution's own ``padding_mode``.

    >>> Same(nn.Conv2d(3, 8, 5, stride=2, padding_mode="reflect"))(torch.zeros(1, 3, 7, 8)).shape
    torch.Size([1, 8, 4, 4])
    """

    def __init__(self, conv: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> None:
        super().__init__()
        if any(conv.padding):
            raise UsageError(f"the padding is found from the size of x; give a convolution without one (got {conv})")
        self.conv = conv

    def forward(self, x: Tensor) -> Tensor:
        conv = self.conv
        padded = pad_same(x, conv.kernel_size, conv.stride, conv.dilation, conv.padding_mode)
        output: Tensor = conv(padded)
        return output


class Causal(nn.Conv1d):
    r"""A causal convolution: each output depends on the present and the past only.

    .. math:: y_t = b + \sum_{i=0}^{k-1} W_i\, x_{t - d\,(k - 1 - i)}

    The sequence is padded with zeros on the left, and the output is as long as the input.

    References:
        | WaveNet: a generative model for raw audio (van den Oord et al., 2016), https://arxiv.org/abs/1609.03499

    >>> Causal(2, 3, kernel=2, dilation=4)(torch.zeros(1, 2, 10)).shape
    torch.Size([1, 3, 10])
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1, bias: bool = True
    ) -> None:
        super().__init__(inputs, outputs, kernel, dilation=dilation, groups=groups, bias=bias)
        self.past = dilation * (kernel - 1)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = super().forward(F.pad(x, (self.past, 0)))
        return output


class DepthwiseSeparable(nn.Sequential):
    r"""A depthwise separable convolution: one kernel per channel, then a 1x1 convolution that mixes the channels.

    .. math:: y_{o} = b_o + \sum_c V_{oc}\, (x_c \star K_c)

    It is the convolution whose kernels :math:`V_{oc} K_c` have rank one between channels and positions, with
    :math:`k^D C + C O` weights instead of :math:`k^D C O`.

    References:
        | Xception: deep learning with depthwise separable convolutions (Chollet, 2017),
          https://arxiv.org/abs/1610.02357
        | MobileNets: efficient convolutional neural networks for mobile vision applications (Howard et al., 2017),
          https://arxiv.org/abs/1704.04861

    >>> sum(weights.numel() for weights in DepthwiseSeparable(3, 5, kernel=7, bias=False).parameters())
    162
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: Padding = 0,
        dilation: int = 1,
        bias: bool = True,
        axes: int = 2,
    ) -> None:
        if axes not in CONVOLUTIONS:
            raise UsageError(f"there are convolutions over one, two or three axes (got axes={axes})")
        kind = CONVOLUTIONS[axes]
        each = kind(inputs, inputs, kernel, stride, padding, dilation, groups=inputs, bias=False)
        super().__init__(each, kind(inputs, outputs, 1, bias=bias))

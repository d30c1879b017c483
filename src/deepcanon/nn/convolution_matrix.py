"""A convolution as a sparse (Toeplitz) matrix, with its number of parameters and products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.core.checks import one_of
from deepcanon.nn.convolution import BORDERS, Border, Padding, output_size, pad_same

PerAxis = int | Sequence[int]


@dataclass(frozen=True)
class ConvolutionCount:
    """The numbers of a convolution: its weights, the products it takes, and the entries of its matrix."""

    parameters: int
    products: int
    """Products of a weight and an input, those with the zeros of the padding left out."""
    rows: int
    columns: int

    @property
    def dense(self) -> int:
        """The parameters, and the products, of a fully connected layer between the same units."""
        return self.rows * self.columns


def convolution_matrix(
    weight: Tensor,
    size: Sequence[int],
    *,
    stride: PerAxis = 1,
    padding: Padding | Sequence[int] = "valid",
    border: Border = "zeros",
    dilation: PerAxis = 1,
    groups: int = 1,
    flip: bool = False,
) -> Tensor:
    r"""The matrix A of a convolution, so that :math:`A\, \mathrm{vec}(x)` is what ``convolve`` gives, without the bias.

    ``weight`` is (outputs, channels / groups, kernel ...) and ``size`` the positions of x along each axis. The result
    is sparse, (outputs * positions, channels * positions). With one axis and stride 1 each of its blocks has the same
    weight all along each diagonal (it is a Toeplitz matrix): the matrix is sparse, and its weights are shared.

    >>> convolution_matrix(torch.tensor([[[1.0, 2.0]]]), (4,)).to_dense()
    tensor([[1., 2., 0., 0.],
            [0., 1., 2., 0.],
            [0., 0., 1., 2.]])
    """
    axes = weight.ndim - 2
    if axes < 1 or len(size) != axes:
        raise UsageError(f"a kernel of {max(axes, 0)} axes needs as many sizes (got {len(size)})")
    one_of(BORDERS, border=border)
    outputs, share, *kernel = weight.shape
    if outputs % groups:
        raise UsageError(f"{outputs} outputs do not divide into {groups} groups")
    channels = share * groups
    if flip:
        weight = weight.flip(tuple(range(2, weight.ndim)))
    # The numbers of the inputs, from 1 on, are padded as the inputs would be; 0 is what the padding adds.
    numbers = torch.arange(1, channels * prod(size) + 1, dtype=torch.float64).reshape(1, channels, *size)
    steps, spacings = _each(stride, axes), _each(dilation, axes)
    if padding == "same":
        numbers = pad_same(numbers, kernel, steps, spacings, border)
    elif padding != "valid":
        around = [amount for amount in reversed(_each(padding, axes)) for _ in range(2)]
        numbers = F.pad(numbers, around, mode="constant" if border == "zeros" else border)
    windows = numbers[0].long()
    for axis, (wide, step, spacing) in enumerate(zip(kernel, steps, spacings, strict=True)):
        windows = windows.unfold(1 + axis, spacing * (wide - 1) + 1, step)[..., ::spacing]
    positions = windows.shape[1 : 1 + axes]
    places = windows.reshape(groups, 1, share, prod(positions), prod(kernel))
    places = places.expand(groups, outputs // groups, -1, -1, -1)  # (groups, outputs, channels, positions, kernel)
    values = weight.reshape(groups, outputs // groups, share, 1, prod(kernel)).expand(places.shape)
    rows = torch.arange(outputs * prod(positions)).reshape(groups, outputs // groups, 1, prod(positions), 1)
    inside = places > 0
    index = torch.stack([rows.expand(places.shape)[inside], places[inside] - 1])
    shape = (outputs * prod(positions), channels * prod(size))
    # A border that repeats inputs meets some of them twice: coalescing adds their weights.
    entries = values[inside.to(weight.device)]
    return torch.sparse_coo_tensor(index.to(weight.device), entries, shape, check_invariants=True).coalesce()


def convolution_count(
    kernel: Sequence[int],
    size: Sequence[int],
    *,
    stride: PerAxis = 1,
    padding: Padding | Sequence[int] = "valid",
    dilation: PerAxis = 1,
    groups: int = 1,
) -> ConvolutionCount:
    """Count a convolution with zeros around ``size``; ``kernel`` is (outputs, channels / groups, positions ...).

    >>> convolution_count((1, 1, 3, 3), (8, 8), padding=1)
    ConvolutionCount(parameters=9, products=484, rows=64, columns=64)
    """
    axes = len(kernel) - 2
    if len(size) != axes:
        raise UsageError(f"a kernel of {max(axes, 0)} axes needs as many sizes (got {len(size)})")
    met, positions = 1, 1
    for axis, (wide, length) in enumerate(zip(kernel[2:], size, strict=True)):
        step, spacing = _each(stride, axes)[axis], _each(dilation, axes)[axis]
        own: Padding = padding if isinstance(padding, str) else _each(padding, axes)[axis]
        count = output_size(length, wide, stride=step, padding=own, dilation=spacing)
        missing = max(0, (count - 1) * step + spacing * (wide - 1) + 1 - length)
        before = own if isinstance(own, int) else missing // 2 if own == "same" else 0
        first = (at * step - before for at in range(count))
        met *= sum(0 <= place + tap * spacing < length for place in first for tap in range(wide))
        positions *= count
    outputs, share = kernel[:2]
    return ConvolutionCount(prod(kernel), outputs * share * met, outputs * positions, share * groups * prod(size))


def _each(value: PerAxis, axes: int) -> list[int]:
    return [value] * axes if isinstance(value, int) else list(value)

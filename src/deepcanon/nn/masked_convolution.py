"""Masked convolutions of images: each pixel sees only the pixels before it, row by row and from left to right."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, pad

from deepcanon.core.checks import at_least
from deepcanon.nn.masked import autoregressive_mask

Step = Callable[[Tensor, int, int], Tensor]
"""A layer at one pixel after the other, in order: from its inputs there, (n, inputs), the row and the column, to
(n, outputs). A pixel may be given again, as its channels become known one after the other; the last time counts."""

AtPixel = Callable[[int, int], Tensor]
"""What is computed of a pixel in a row and a column, by what an image holds before it."""


class CausalConv(nn.Conv2d):
    r"""A convolution over pixels above and to the left of a pixel and over itself, autoregressive in its channels.

    .. math:: y_p = b + \sum_{s \text{ before } p} W_{p - s} \, x_s + (M \odot W_0) \, x_p

    The mask M follows from the degrees of the maps, one for each input and output: a map of degree c may depend on the
    channels up to c of the image at its own pixel, and ``strictly`` on those before c. It is not saved.

    References:
        | Pixel Recurrent Neural Networks (van den Oord et al., 2016), https://arxiv.org/abs/1601.06759

    Arguments:
        inputs: The degrees of the input maps.
        outputs: The degrees of the output maps.
        above: How many rows above it reaches; in each it sees ``reach`` pixels to both sides.
        reach: How many pixels to the left it reaches.
        dilation: The distance of those pixels and rows, in pixels; 1 leaves none out.
        strictly: Whether an output depends on the channels before its own only, as in the first layer.
    """

    mask: Tensor

    def __init__(
        self, inputs: Tensor, outputs: Tensor, above: int, reach: int, *, dilation: int = 1, strictly: bool = False
    ) -> None:
        at_least(0, above=above, reach=reach)
        at_least(1, dilation=dilation)
        right = reach if above else 0
        super().__init__(len(inputs), len(outputs), (above + 1, reach + 1 + right), dilation=dilation)
        mask = torch.ones_like(self.weight)
        mask[:, :, -1, reach + 1 :] = 0
        mask[:, :, -1, reach] = autoregressive_mask(inputs, outputs, strictly=strictly).to(mask)
        self.border = (dilation * reach, dilation * right, dilation * above, 0)
        self.register_buffer("mask", mask, persistent=False)
        self.masked = bool((mask == 0).any())

    @property
    def masked_weight(self) -> Tensor:
        """The weight, (outputs, inputs, rows, columns), zero where the mask is."""
        return self.mask * self.weight if self.masked else self.weight

    def forward(self, x: Tensor) -> Tensor:
        inputs = pad(x, self.border) if any(self.border) else x
        return conv2d(inputs, self.masked_weight, self.bias, dilation=self.dilation)

    def steps(self, n: int, height: int, width: int) -> Step:
        """The convolution at one pixel after the other: it keeps the inputs that it has been given."""
        if self.kernel_size == (1, 1):
            weight = self.masked_weight.flatten(1)
            return lambda x, row, column: linear(x, weight, self.bias)
        left, _, above, _ = self.border
        seen, at = self._cache(n, height, width)

        def step(x: Tensor, row: int, column: int) -> Tensor:
            seen[:, row + above, column + left] = x
            return at(row, column)

        return step

    def over(self, x: Tensor) -> AtPixel:
        """The convolution at one pixel of the image ``x`` after the other, while ``x`` is filled in place."""
        n, _, height, width = x.shape
        left, _, above, _ = self.border
        seen, at = self._cache(n, height, width)

        def step(row: int, column: int) -> Tensor:
            first = max(row - 1, 0)  # the last pixel of the row above may be new
            rows = slice(first + above, row + above + 1)
            seen[:, rows, left : left + width] = x[:, :, first : row + 1].permute(0, 2, 3, 1)
            return at(row, column)

        return step

    def _cache(self, n: int, height: int, width: int) -> tuple[Tensor, AtPixel]:
        """Room for inputs with a border, (n, rows, columns, inputs), and the outputs at a pixel by what is there."""
        left, right, above, _ = self.border
        apart = self.dilation[0]
        weight = self.masked_weight.movedim(1, -1).flatten(1)  # (outputs, rows * columns * inputs)
        seen = self.weight.new_zeros(n, height + above, left + width + right, self.in_channels)

        def at(row: int, column: int) -> Tensor:
            rows, columns = slice(row, row + above + 1, apart), slice(column, column + left + right + 1, apart)
            return linear(seen[:, rows, columns].flatten(1), weight, self.bias)

        return seen, at


class LeftConv(CausalConv):
    """A convolution over a pixel and ``reach`` pixels to the left of it in its row; with 0 it is a 1x1 convolution.

    >>> LeftConv(torch.tensor([0]), torch.tensor([0, 0]), reach=1)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 2, 8, 8])
    """

    def __init__(
        self, inputs: Tensor, outputs: Tensor, reach: int, *, dilation: int = 1, strictly: bool = False
    ) -> None:
        super().__init__(inputs, outputs, 0, reach, dilation=dilation, strictly=strictly)


class AboveConv(nn.Conv2d):
    """A convolution over the rows from ``reach`` above a pixel down to its own, and as many columns to both sides.

    Rows and columns are ``dilation`` pixels apart.

    >>> AboveConv(1, 4, reach=1)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    """

    def __init__(self, inputs: int, outputs: int, reach: int, dilation: int = 1) -> None:
        at_least(0, reach=reach)
        at_least(1, dilation=dilation)
        super().__init__(inputs, outputs, (reach + 1, 2 * reach + 1), dilation=dilation)
        self.border = dilation * reach

    def forward(self, x: Tensor) -> Tensor:
        inputs = pad(x, (self.border, self.border, self.border, 0))
        return conv2d(inputs, self.weight, self.bias, dilation=self.dilation)

    def rows(self, n: int, height: int, width: int) -> Callable[[Tensor, int], Tensor]:
        """The convolution row by row, (n, inputs, W) to (n, outputs, W): it keeps the rows that it has been given."""
        border, apart = self.border, self.dilation[0]
        seen = self.weight.new_zeros(n, self.in_channels, height + border, width + 2 * border)

        def row_of(x: Tensor, row: int) -> Tensor:
            seen[:, :, row + border, border : border + width] = x
            rows = seen[:, :, row : row + border + 1 : apart]
            return conv2d(rows, self.weight, self.bias, dilation=(1, apart)).squeeze(2)

        return row_of

"""Masked convolutions of images: each pixel sees only the pixels before it, row by row and from left to right."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.nn.masked import autoregressive_mask


class LeftConv(nn.Conv2d):
    r"""A convolution over a pixel and those to the left of it in its row, autoregressive in the channels of the pixel.

    .. math:: y_{ij} = b + \sum_{s=1}^{r} W_s \, x_{i, j-s} + (M \odot W_0) \, x_{ij}

    The mask M follows from the degrees of the maps, one for each input and output: a map of degree c may depend on the
    channels up to c of the image at its own pixel, and ``strictly`` on those before c. It is not saved.

    References:
        | Pixel Recurrent Neural Networks (van den Oord et al., 2016), https://arxiv.org/abs/1601.06759

    Arguments:
        inputs: The degrees of the input maps.
        outputs: The degrees of the output maps.
        reach: The number :math:`r` of pixels to the left; with 0 it is a 1x1 convolution.
        strictly: Whether an output depends on the channels before its own only, as in the first layer.
    """

    mask: Tensor

    def __init__(self, inputs: Tensor, outputs: Tensor, reach: int, *, strictly: bool = False) -> None:
        at_least(0, reach=reach)
        super().__init__(len(inputs), len(outputs), (1, reach + 1))
        mask = torch.ones_like(self.weight)
        mask[:, :, 0, -1] = autoregressive_mask(inputs, outputs, strictly=strictly).to(mask)
        self.reach = reach
        self.register_buffer("mask", mask, persistent=False)
        self.masked = bool((mask == 0).any())

    def forward(self, x: Tensor) -> Tensor:
        weight = self.mask * self.weight if self.masked else self.weight
        return conv2d(pad(x, (self.reach, 0)), weight, self.bias)


class AboveConv(nn.Conv2d):
    """A convolution over the rows from ``reach`` above a pixel down to its own, and as many columns to both sides.

    >>> AboveConv(1, 4, reach=1)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    """

    def __init__(self, inputs: int, outputs: int, reach: int) -> None:
        at_least(0, reach=reach)
        super().__init__(inputs, outputs, (reach + 1, 2 * reach + 1))
        self.reach = reach

    def forward(self, x: Tensor) -> Tensor:
        return conv2d(pad(x, (self.reach, self.reach, self.reach, 0)), self.weight, self.bias)


class GatedLayer(nn.Module):
    r"""A gated layer of two stacks: v sees all rows above a pixel, h also the pixels to the left, and v feeds h.

    .. math:: g(a, b) = \tanh(a) \odot \sigma(b), \qquad v' = g(A * v + c), \qquad
              h' = h + R * g(L * h + V * (A * v) + c')

    A single stack of masked convolutions would leave a blind spot to the right above a pixel, which it never sees. The
    biases c, c' may be given for each example: they are how a context enters. ``first`` has no h to add.

    References:
        | Conditional Image Generation with PixelCNN Decoders (van den Oord et al., 2016),
          https://arxiv.org/abs/1606.05328
    """

    def __init__(self, inputs: Tensor, degrees: Tensor, reach: int, *, first: bool) -> None:
        super().__init__()
        gates = torch.cat([degrees, degrees])
        self.above = AboveConv(len(inputs), len(gates), reach)
        self.down = nn.Conv2d(len(gates), len(gates), 1)
        self.left = LeftConv(inputs, gates, reach, strictly=first)
        self.residual = LeftConv(degrees, degrees, 0)
        self.first = first

    def forward(self, v: Tensor, h: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        above = self.above(v)
        left = self.left(h) + self.down(above)
        if bias is not None:
            above, left = above + bias, left + bias
        new: Tensor = self.residual(_gate(left))
        return _gate(above), new if self.first else h + new


class GatedPixelNet(nn.Module):
    r"""The network of a gated PixelCNN: logits of each value of an image given the values before it.

    Pixels come row by row, the channels of a pixel one after the other: a map belongs to one of the channels, its
    degree, and the masks keep it from what comes later. The image is given as (B, channels, H, W), the logits as
    (B, outputs, channels, H, W).

    Arguments:
        channels: The number of channels of the image.
        outputs: The number of logits of each value.
        width: The number of maps of a layer, a multiple of ``channels``.
        layers: The number of gated layers.
        reach: How many pixels a layer looks to the left, to both sides above and up.
        context: The number of classes of a context, of which each has biases in every layer; 0 without one.
    """

    def __init__(self, channels: int, outputs: int, width: int, layers: int, reach: int, context: int = 0) -> None:
        super().__init__()
        at_least(1, channels=channels, width=width, layers=layers, reach=reach)
        if width % channels:
            raise UsageError(f"width is the same for each of the {channels} channels, so a multiple (got {width})")
        values = torch.arange(channels)
        degrees = values.repeat(width // channels)
        self.layers = nn.ModuleList(
            GatedLayer(degrees if layer else values, degrees, reach, first=layer == 0) for layer in range(layers)
        )
        self.biases = nn.Embedding(context, layers * 2 * width) if context else None
        self.hidden = LeftConv(degrees, degrees, 0)
        self.logits = LeftConv(degrees, values.repeat(outputs), 0)
        self.outputs = outputs
        if self.biases is not None:
            nn.init.normal_(self.biases.weight, std=0.1)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        v, h = pad(x, (0, 0, 1, 0))[:, :, :-1], x  # v is shifted down by a row, so that its own row is that above
        biases: list[Tensor | None] = [None] * len(self.layers)
        if self.biases is not None and context is not None:
            biases = list(self.biases(context)[:, :, None, None].chunk(len(self.layers), 1))  # (B, 2 width, 1, 1) each
        for layer, bias in zip(self.layers, biases, strict=True):
            v, h = layer(v, h, bias)
        logits: Tensor = self.logits(self.hidden(h.relu()).relu())
        by_level: Tensor = logits.unflatten(1, (self.outputs, -1))
        return by_level


def _gate(x: Tensor) -> Tensor:
    """A gated activation: the tanh of one half of the maps times the sigmoid of the other."""
    a, b = x.chunk(2, 1)
    return a.tanh() * b.sigmoid()

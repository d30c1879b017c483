"""Networks of images that give the logits of each value given those before it, at once or pixel by pixel."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.nn.masked_convolution import AboveConv, AtPixel, CausalConv, LeftConv, Step

FIRST_REACH = 3
"""The first layer of a PixelCNN and of a PixelRNN sees 7x7 pixels, of which those after its own are masked."""


class PixelLayer(nn.Module):
    """A layer of maps whose outputs at a pixel depend on its inputs there and before, by the degrees of the maps."""

    @abstractmethod
    def steps(self, n: int, height: int, width: int) -> Step:
        """The layer at one pixel after the other, for n images."""


class ResidualConv(PixelLayer):
    r"""A residual block of a PixelCNN: half as many maps inside, of which a masked convolution sees 3x3 pixels.

    .. math:: x' = x + U * \mathrm{relu}(C * \mathrm{relu}(D * \mathrm{relu}(x)))

    With a ``dilation``, these pixels are so far apart.

    References:
        | Pixel Recurrent Neural Networks (van den Oord et al., 2016), https://arxiv.org/abs/1601.06759
    """

    def __init__(self, inner: Tensor, dilation: int = 1) -> None:
        super().__init__()
        degrees = inner.repeat(2)
        self.down = LeftConv(degrees, inner, 0)
        self.conv = CausalConv(inner, inner, 1, 1, dilation=dilation)
        self.up = LeftConv(inner, degrees, 0)

    def forward(self, x: Tensor) -> Tensor:
        inside: Tensor = self.up(self.conv(self.down(x.relu()).relu()).relu())
        return x + inside

    def steps(self, n: int, height: int, width: int) -> Step:
        down, conv, up = (layer.steps(n, height, width) for layer in (self.down, self.conv, self.up))

        def step(x: Tensor, row: int, column: int) -> Tensor:
            return x + up(conv(down(x.relu(), row, column).relu(), row, column).relu(), row, column)

        return step


class PixelHead(nn.Module):
    """The end of a network of pixels: two 1x1 convolutions, each after a ReLU, to the logits of each channel."""

    def __init__(self, degrees: Tensor, channels: int, outputs: int) -> None:
        super().__init__()
        self.hidden = LeftConv(degrees, degrees, 0)
        self.logits = LeftConv(degrees, torch.arange(channels).repeat(outputs), 0)
        self.outputs = outputs

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.logits(self.hidden(x.relu()).relu())
        by_level: Tensor = logits.unflatten(1, (self.outputs, -1))
        return by_level

    def step(self) -> Callable[[Tensor], Tensor]:
        """The logits of one pixel, (n, outputs, channels), from the maps there, (n, maps)."""
        hidden, logits = (layer.steps(0, 0, 0) for layer in (self.hidden, self.logits))
        return lambda x: logits(hidden(x.relu(), 0, 0).relu(), 0, 0).unflatten(1, (self.outputs, -1))


class PixelNet(nn.Module):
    """A masked convolution of 7x7 pixels, layers of pixels, and a head: the network of a PixelCNN or a PixelRNN.

    Pixels come row by row, the channels of a pixel one after the other: a map belongs to one of the channels, its
    degree, and the masks keep it from what comes later. The image is given as (B, channels, H, W), the logits as
    (B, outputs, channels, H, W).

    Arguments:
        channels: The number of channels of the image.
        outputs: The number of logits of each value.
        width: The number of maps inside a layer, a multiple of ``channels``; between layers there are twice as many.
        layers: What makes each layer from the degrees of the maps inside.
    """

    def __init__(
        self, channels: int, outputs: int, width: int, layers: Sequence[Callable[[Tensor], PixelLayer]]
    ) -> None:
        super().__init__()
        inner = _map_degrees(channels, width)
        degrees = inner.repeat(2)
        self.first = CausalConv(torch.arange(channels), degrees, FIRST_REACH, FIRST_REACH, strictly=True)
        self.layers = nn.Sequential(*(layer(inner) for layer in layers))
        self.head = PixelHead(degrees, channels, outputs)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(self.first(x)))
        return logits

    def steps(self, x: Tensor) -> AtPixel:
        """The logits of one pixel after the other, (n, outputs, channels), while ``x`` is filled in place."""
        n, _, height, width = x.shape
        first, head = self.first.over(x), self.head.step()
        steps = [cast(PixelLayer, layer).steps(n, height, width) for layer in self.layers]

        def at(row: int, column: int) -> Tensor:
            maps = first(row, column)
            for step in steps:
                maps = step(maps, row, column)
            return head(maps)

        return at


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

    def __init__(self, inputs: Tensor, degrees: Tensor, reach: int, *, dilation: int = 1, first: bool = False) -> None:
        super().__init__()
        gates = torch.cat([degrees, degrees])
        self.above = AboveConv(len(inputs), len(gates), reach, dilation)
        self.down = nn.Conv2d(len(gates), len(gates), 1)
        self.left = LeftConv(inputs, gates, reach, dilation=dilation, strictly=first)
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
        dilations: How far apart these pixels are in each layer; after the last one they begin anew.
        context: The number of classes of a context, of which each has biases in every layer; 0 without one.
    """

    def __init__(
        self,
        channels: int,
        outputs: int,
        width: int,
        layers: int,
        reach: int,
        dilations: Sequence[int] = (1,),
        context: int = 0,
    ) -> None:
        super().__init__()
        at_least(1, layers=layers, reach=reach, dilations=len(dilations))
        degrees = _map_degrees(channels, width)
        self.layers = nn.ModuleList(
            GatedLayer(
                degrees if layer else torch.arange(channels), degrees, reach, dilation=dilation, first=layer == 0
            )
            for layer, dilation in enumerate(islice(cycle(dilations), layers))
        )
        self.biases = nn.Embedding(context, layers * 2 * width) if context else None
        self.head = PixelHead(degrees, channels, outputs)
        if self.biases is not None:
            nn.init.normal_(self.biases.weight, std=0.1)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        v, h = pad(x, (0, 0, 1, 0))[:, :, :-1], x  # v is shifted down by a row, so that its own row is that above
        for layer, bias in zip(self.layers, self._biases(context), strict=True):
            v, h = layer(v, h, None if bias is None else bias[:, :, None, None])
        logits: Tensor = self.head(h)
        return logits

    def steps(self, x: Tensor, context: Tensor | None = None) -> AtPixel:
        """The logits of one pixel after the other, (n, outputs, channels), while ``x`` is filled in place.

        The vertical stack goes on by a row at a time, the horizontal one by a pixel.
        """
        n, _, height, width = x.shape
        layers = [cast(GatedLayer, layer) for layer in self.layers]
        above = [layer.above.rows(n, height, width) for layer in layers]
        first, left = layers[0].left.over(x), [layer.left.steps(n, height, width) for layer in layers[1:]]
        residual = [layer.residual.steps(n, height, width) for layer in layers]
        biases, head = self._biases(context), self.head.step()
        from_above: list[Tensor] = []
        current = -1

        def row_of(row: int) -> list[Tensor]:
            """What the vertical stack adds to the gates of the horizontal one in this row, (n, gates, W) by layer."""
            v, added = x[:, :, row - 1] if row else torch.zeros_like(x[:, :, 0]), []
            for layer, conv, bias in zip(layers, above, biases, strict=True):
                gates = conv(v, row)
                down = layer.down(gates.unsqueeze(2)).squeeze(2)
                if bias is not None:
                    gates, down = gates + bias.unsqueeze(2), down + bias.unsqueeze(2)
                added.append(down)
                v = _gate(gates)
            return added

        def at(row: int, column: int) -> Tensor:
            nonlocal current, from_above
            if row != current:
                current, from_above = row, row_of(row)
            h = residual[0](_gate(first(row, column) + from_above[0][:, :, column]), row, column)
            for step, back, added in zip(left, residual[1:], from_above[1:], strict=True):
                h = h + back(_gate(step(h, row, column) + added[:, :, column]), row, column)
            return head(h)

        return at

    def _biases(self, context: Tensor | None) -> list[Tensor | None]:
        """The biases of a context in each layer, (B, 2 width), if there is one."""
        if self.biases is None or context is None:
            return [None] * len(self.layers)
        return list(self.biases(context).chunk(len(self.layers), 1))


def _map_degrees(channels: int, width: int) -> Tensor:
    """The channel that each of ``width`` maps belongs to: all channels in turn, each as often."""
    at_least(1, channels=channels, width=width)
    if width % channels:
        raise UsageError(f"width is the same for each of the {channels} channels, so a multiple (got {width})")
    return torch.arange(channels).repeat(width // channels)


def _gate(x: Tensor) -> Tensor:
    """A gated activation: the tanh of one half of the maps times the sigmoid of the other."""
    a, b = x.chunk(2, 1)
    return a.tanh() * b.sigmoid()

"""The multi-scale flow of images, as Glow has it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.nn.transforms import (
    ActNorm,
    AffineCoupling,
    Chain,
    Flatten,
    InvertibleConv1x1,
    Mapped,
    Split,
    Squeeze,
    Transform,
)


def multi_scale(shape: tuple[int, int, int], scales: int, depth: int, hidden: int, context: int = 0) -> Chain:
    """The flow of images (channels, height, width) to vectors, with ``depth`` steps at each of its scales.

    A step is ActNorm, an invertible 1x1 convolution and an affine coupling, whose network has two hidden layers of
    ``hidden`` channels. With ``context`` the networks also read so many maps of the size of the images.
    """
    channels, height, width = shape
    at_least(1, channels=channels, height=height, width=width, scales=scales, depth=depth, hidden=hidden)
    if height % 2**scales or width % 2**scales:
        raise UsageError(
            f"a flow of {scales} scales halves height and width so many times: both must be divisible by {2**scales} "
            f"(got {height}x{width}); take fewer scales"
        )
    return _scale(shape, scales, depth, hidden, context)


class Halves(Transform):
    """The halves of an image, each by its own flow to vectors; the lower one is conditioned on the upper one.

    The context is a vector for each example. The flow of the upper half gets it as maps, a value everywhere; that of
    the lower half gets the upper half as further maps, upside down, so that rows that are next to each other meet.

    Arguments:
        upper: The flow of the upper half.
        lower: The flow of the lower half.
        size: The height and the width of a half.
    """

    conditional = True

    def __init__(self, upper: Chain, lower: Chain, size: tuple[int, int]) -> None:
        super().__init__()
        self.upper, self.lower, self.size = upper, lower, size

    def forward(self, x: Tensor, context: Tensor | None = None) -> Mapped:
        assert context is not None  # a chain refuses to go on without it
        a, b = x.chunk(2, -2)
        first, log_det = self.upper(a, self.maps(context))
        second, change = self.lower(b, self.seen(a, context))
        return torch.cat([first, second], 1), log_det + change

    def inverse(self, z: Tensor, context: Tensor | None = None) -> Tensor:
        assert context is not None
        first, second = z.chunk(2, 1)
        a = self.upper.inverse(first, self.maps(context))
        return torch.cat([a, self.lower.inverse(second, self.seen(a, context))], -2)

    @torch.no_grad()
    def fit(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        assert context is not None
        a, b = x.chunk(2, -2)
        parts = self.upper.fit(a, self.maps(context)), self.lower.fit(b, self.seen(a, context))
        return torch.cat(parts, 1)

    def maps(self, context: Tensor) -> Tensor:
        """What the flow of the upper half is conditioned on, (B, context, height, width)."""
        return context[..., None, None].expand(-1, -1, *self.size)

    def seen(self, upper: Tensor, context: Tensor) -> Tensor:
        """What the flow of the lower half is conditioned on, (B, context + channels, height, width)."""
        return torch.cat([self.maps(context), upper.flip(-2)], 1)


class ChannelsLast(nn.Conv2d):
    """A convolution whose outputs are stored with channels last, in which those after it are faster.

    Its weights are stored as always, so that they and what an optimizer keeps of them are saved as they are.
    """

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.contiguous(memory_format=torch.channels_last))


class Told(nn.Module):
    """The network of a coupling whose hidden layer also reads maps, squeezed so often as the image is by then."""

    def __init__(self, channels: int, hidden: int, context: int, squeezed: int) -> None:
        super().__init__()
        self.net = _network(channels, hidden)
        self.squeezed = squeezed
        self.maps = ChannelsLast(context * 4**squeezed, hidden, 3, padding=1, bias=False)

    def forward(self, half: Tensor, context: Tensor) -> Tensor:
        first, *others = self.net
        h = first(half) + self.maps(_squeezed(context, 2**self.squeezed))
        for layer in others:
            h = layer(h)
        out: Tensor = h
        return out


def _squeezed(x: Tensor, side: int) -> Tensor:
    """As torch's pixel_unshuffle, which leaves no examples at all as they are."""
    rows, channels, height, width = x.shape
    parts = x.reshape(rows, channels, height // side, side, width // side, side).permute(0, 1, 3, 5, 2, 4)
    return parts.reshape(rows, channels * side**2, height // side, width // side)


def _scale(shape: tuple[int, int, int], scales: int, depth: int, hidden: int, context: int, squeezed: int = 1) -> Chain:
    """The flow of images of this shape from one scale on, to vectors."""
    shape = (4 * shape[0], shape[1] // 2, shape[2] // 2)
    channels = shape[0]

    def coupling() -> AffineCoupling:
        if not context:
            return AffineCoupling(_network(channels, hidden))
        return AffineCoupling(Told(channels, hidden, context, squeezed), conditional=True)

    steps: list[Transform] = [Squeeze()]
    for _ in range(depth):
        steps += [ActNorm(channels), InvertibleConv1x1(channels), coupling()]
    if scales == 1:
        return Chain([*steps, ActNorm(channels), Flatten(shape)])
    rest = _scale((channels // 2, *shape[1:]), scales - 1, depth, hidden, context, squeezed + 1)
    return Chain([*steps, coupling(), Split(shape, rest)])


def _network(channels: int, hidden: int) -> nn.Sequential:
    """The network of a coupling; its last layer is zero at first, and the coupling the identity."""
    last = nn.Conv2d(hidden, channels, 3, padding=1)
    nn.init.zeros_(last.weight)
    first = ChannelsLast(channels // 2, hidden, 3, padding=1)
    return nn.Sequential(first, nn.ReLU(inplace=True), nn.Conv2d(hidden, hidden, 1), nn.ReLU(inplace=True), last)

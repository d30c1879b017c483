"""U-Net of images with noise: convolutions down to a small image and up again, given the time and a class."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, scaled_dot_product_attention, silu

from deepcanon.core import UsageError
from deepcanon.core.checks import at_least
from deepcanon.nn.time_mlp import time_features

GROUPS = 8
"""The most groups of channels that are normalized together."""
HEAD = 8
"""The channels of a head of attention."""
BLOCKS = 2
"""The residual blocks at each resolution on the way down; on the way up there is one more."""


class ConvBlock(nn.Module):
    """A residual block of two convolutions with the embedding of the time added between them."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.norm1 = _norm(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.norm2 = _norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        h = self.conv1(silu(self.norm1(x))) + self.time(time)[..., None, None]
        output: Tensor = self.skip(x) + self.conv2(silu(self.norm2(h)))
        return output


class PixelAttention(nn.Module):
    """Self-attention of all pixels of an image, with a residual connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.heads = max(1, channels // HEAD)
        self.norm = _norm(channels)
        self.inner = nn.Linear(channels, 3 * channels)
        self.outer = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-2:]
        rows = self.inner(self.norm(x).flatten(2).mT)  # (B, T, 3 C)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in rows.chunk(3, -1))
        mixed = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        output: Tensor = x + self.outer(mixed).mT.unflatten(-1, size)
        return output


class UNet(nn.Module):
    r"""A U-Net conditioned on time: images with noise and times to images of the same size.

    At each of some resolutions stand residual blocks; between them the image is halved on the way down and doubled on
    the way up, where every block also reads what the block opposite to it gave. Pixels attend to each other at the
    lowest resolution. Images come as rows of numbers, (B, C H W), channels first, and leave as such. Times are from 0
    to about 1000, one for each example, (B,), or one for all, (1,); a class is given as a time is, and the number
    ``classes`` itself is the null class.

    References:
        | U-Net: Convolutional Networks for Biomedical Image Segmentation (Ronneberger et al., 2015),
          https://arxiv.org/abs/1505.04597
        | Denoising Diffusion Probabilistic Models (Ho et al., 2020), https://arxiv.org/abs/2006.11239

    Arguments:
        shape: The channels, the height and the width of an image.
        hidden: The channels at each resolution, the first that of the images.
        classes: The number of classes that it is conditioned on, if any.
        outputs: How many numbers it gives for each number of an image.
    """

    def __init__(
        self, shape: tuple[int, int, int], hidden: tuple[int, ...], classes: int | None = None, outputs: int = 1
    ) -> None:
        super().__init__()
        at_least(1, resolutions=len(hidden), channels=min(hidden), outputs=outputs)
        if min(shape[1:]) < 2 ** (len(hidden) - 1):
            raise UsageError(
                f"a U-Net of {len(hidden)} resolutions halves images so often that {shape[1]}x{shape[2]} pixels "
                "are too few; give fewer widths"
            )
        self.shape = shape
        channels, first, last = shape[0], hidden[0], hidden[-1]
        size = 4 * first
        self.waves = first + first % 2
        self.time = nn.Sequential(nn.Linear(self.waves, size), nn.SiLU(), nn.Linear(size, size))
        self.label = None if classes is None else nn.Embedding(classes + 1, size)
        self.first = nn.Conv2d(channels, first, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        skips, width = [first], first
        for level, outer in enumerate(hidden):
            for _ in range(BLOCKS):
                self.down.append(ConvBlock(width, outer, size))
                width = outer
                skips.append(width)
            if level + 1 < len(hidden):
                self.down.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                skips.append(width)
        self.middle = nn.ModuleList([ConvBlock(last, last, size), PixelAttention(last), ConvBlock(last, last, size)])
        for level, outer in reversed(list(enumerate(hidden))):
            for _ in range(BLOCKS + 1):
                self.up.append(ConvBlock(width + skips.pop(), outer, size))
                width = outer
            if level > 0:
                self.up.append(nn.Conv2d(width, width, 3, padding=1))
        end = nn.Conv2d(first, outputs * channels, 3, padding=1)
        nn.init.zeros_(end.weight)
        if end.bias is not None:
            nn.init.zeros_(end.bias)
        self.last = nn.Sequential(_norm(first), nn.SiLU(), end)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor, t: Tensor, y: Tensor | None = None) -> Tensor:
        time = self.time(time_features(t.to(x.dtype), self.waves))
        if self.label is not None and y is not None:
            time = time + self.label(y)
        time = silu(time)
        h = self.first(x.unflatten(-1, self.shape).contiguous(memory_format=torch.channels_last))
        seen = [h]
        for part in self.down:
            h = part(h, time) if isinstance(part, ConvBlock) else part(h)
            seen.append(h)
        for part in self.middle:
            h = part(h, time) if isinstance(part, ConvBlock) else part(h)
        for part in self.up:
            if isinstance(part, ConvBlock):
                h = part(torch.cat([h, seen.pop()], 1), time)
            else:
                h = part(interpolate(h, size=seen[-1].shape[-2:], mode="nearest"))
        output: Tensor = self.last(h)
        return output.flatten(1)


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(math.gcd(GROUPS, channels), channels)

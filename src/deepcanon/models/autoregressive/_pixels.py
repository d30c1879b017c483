"""Autoregressive models of images in gray levels: exact likelihood by the chain rule, sampling pixel by pixel."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy

from deepcanon.core import DataError, Density, Support, Terms
from deepcanon.core.checks import at_least
from deepcanon.core.conditional import Conditional
from deepcanon.core.precision import full
from deepcanon.core.turn import B
from deepcanon.nn.masked_convolution import AtPixel
from deepcanon.nn.pixel_net import GatedPixelNet, PixelNet

LOGITS = 2**22
"""How many logits ``log_prob`` computes at once: those of 256 gray levels of a thousand images are near a gigabyte."""


class AutoregressiveImages(Density[B]):
    r"""A model of images whose values are gray levels, whole numbers from 0 to ``levels - 1``.

    The values come row by row, in a row from left to right, and at a pixel channel after channel. A leaf gives the
    network ``net`` of the logits of all values, those of a value depending on the values before it only; its ``steps``
    give those of one pixel after the other and compute nothing twice. Samples are drawn by them.

    .. math:: \log p(x) = \sum_{d=1}^D \log p(x_d \mid x_{<d}), \qquad
              p(x_d = k \mid x_{<d}) = \operatorname{softmax}(\text{logits}_d)_k \qquad (1)
    """

    net: PixelNet | GatedPixelNet

    def __init__(self, channels: int, height: int, width: int, levels: int) -> None:
        super().__init__()
        at_least(1, channels=channels, height=height, width=width)
        at_least(2, levels=levels)
        self.shape = (channels, height, width)
        self.levels = levels

    def logits(self, x: Tensor, *told: Any) -> Tensor:
        """The logits of each gray level of each value given the values before it, (B, levels, C, H, W).

        The network takes the model's context with each image, unless another is given.
        """
        logits: Tensor = self.net(self.scaled(x), *(told or self._told(len(x))))
        return logits

    def at_pixels(self, seen: Tensor) -> AtPixel:
        """The logits of one pixel after the other, in order, while ``seen`` is filled in place with scaled values."""
        return self.net.steps(seen, *self._told(len(seen)))

    def _told(self, n: int) -> tuple[Any, ...]:
        """What the network is given with each of n images: the context of a conditional model, else nothing."""
        return (self._context(n),) if isinstance(self, Conditional) else ()

    @property
    def support(self) -> Support:
        return "gray levels"

    def check_values(self, x: Tensor) -> None:
        super().check_values(x)
        if x.numel() and not x.is_meta and x.max() >= self.levels:
            raise DataError(
                f"{self.name()} was built for the gray levels 0 to {self.levels - 1}, but the data go up to "
                f"{x.max():.3g}; give it as many levels as the data have"
            )

    def images(self, x: Tensor) -> Tensor:
        """The examples as images, (B, C, H, W), whatever their shape."""
        if x.ndim < 2 or math.prod(x.shape[1:]) != math.prod(self.shape):
            channels, height, width = self.shape
            raise DataError(
                f"the model takes images of {channels}x{height}x{width} values, got the shape {tuple(x.shape)}"
            )
        return x.reshape(len(x), *self.shape)

    def scaled(self, x: Tensor) -> Tensor:
        """Gray levels as numbers from -1 to 1, as a network takes them."""
        return 2 * x / (self.levels - 1) - 1

    def _log_prob(self, x: Tensor) -> Tensor:
        x = self.images(x)
        size = max(1, LOGITS // (self.levels * math.prod(self.shape)))
        parts = zip(*(each.split(size) for each in (x, *self._told(len(x)))), strict=True)
        return torch.cat([self._sum_of_log_probs(*part) for part in parts])

    def _sum_of_log_probs(self, x: Tensor, *told: Any) -> Tensor:
        logits = full(self.logits(x, *told))
        return -cross_entropy(logits, x.long(), reduction="none").flatten(1).sum(-1)  # eq. (1)

    def _metrics_of(self, terms: Terms, batch: B) -> Terms:
        nll = terms["nll"]
        return {"nll": nll, "bits_per_dim": nll / (math.prod(self.shape) * math.log(2))}

    def forward(self, x: Tensor) -> Tensor:
        """The probability of each gray level of each value given the values before it, (B, levels, C, H, W)."""
        return self.logits(self.images(x)).softmax(1)

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        like = next(self.parameters())
        channels, height, width = self.shape
        x = torch.zeros(n, *self.shape, device=like.device, dtype=like.dtype)
        seen = torch.zeros_like(x)
        at = self.at_pixels(seen)
        for row in range(height):
            for column in range(width):
                for channel in range(channels):
                    shares = full(at(row, column)[:, :, channel]).softmax(-1)
                    drawn = torch.multinomial(shares, 1, generator=generator).squeeze(1).to(x)
                    x[:, channel, row, column], seen[:, channel, row, column] = drawn, self.scaled(drawn)
        return x
